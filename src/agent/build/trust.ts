/** Lets builds use the host's proxy and its trusted certificate authorities. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { hostProxies } from '../../lib/child-env.ts'

/** Directories in which administrators of Debian and Fedora hosts add certificate authorities. */
const adminDirs = ['/usr/local/share/ca-certificates', '/etc/pki/ca-trust/source/anchors'] as const

/**
 * Limit on the size of all certificates. An environment variable may have 128 KiB (execve(2), MAX_ARG_STRLEN), and
 * percent-encoding adds to the size.
 */
const maxBytes = 96 << 10

/**
 * Returns the environment that `trustScript` reads: `MOTE_CA` with the authorities in PEM, and the proxy.
 * @param file PEM file of the authorities; null: those that the host's administrator added to the system
 * @throws Error that names the setting `MOTE_BUILD_CA` if its file cannot be used
 */
export async function buildTrust(
  file: string | null,
  dirs: readonly string[] = adminDirs,
): Promise<Record<string, string>> {
  const texts = file === null ? await inDirs(dirs) : [await read(file)]
  const authorities = [...new Set(texts.flatMap(certificatesIn))].filter(text => !isPublic(text)).join('\n')
  if (authorities.length > maxBytes)
    throw new Error(
      `builds cannot take ${authorities.length} bytes of certificate authorities (at most ${maxBytes}): set MOTE_BUILD_CA to a file with only the ones that they need`,
    )
  return { ...hostProxies(), ...(authorities === '' ? {} : { MOTE_CA: authorities }) }
}

async function read(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new Error(`MOTE_BUILD_CA: cannot read ${file}`, { cause })
  })
  if (certificatesIn(text).length === 0) throw new Error(`MOTE_BUILD_CA: ${file} holds no certificate in PEM`)
  return text
}

async function inDirs(dirs: readonly string[]): Promise<string[]> {
  const texts: string[] = []
  for (const dir of dirs) {
    const names = await readdir(dir, { recursive: true }).catch((): string[] => [])
    for (const name of names.filter(one => /\.(?:crt|pem)$/.test(one)).sort())
      texts.push(await readFile(join(dir, name), 'utf8').catch(() => ''))
  }
  return texts
}

/**
 * Whether the authority is in Mozilla's list, which the builder's image also has. True for most certificates of a
 * system bundle.
 */
const isPublic = (certificate: string) => publicOnes().has(bare(certificate))

let found: ReadonlySet<string> | undefined
const publicOnes = () => (found ??= new Set(rootCertificates.map(bare)))
const bare = (certificate: string) => certificate.replace(/\s/g, '')

const certificatesIn = (text: string): string[] =>
  text.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g) ?? []

/**
 * Shell code that runs before a build: adds the authorities to those of the image, and configures programs that have
 * their own list.
 */
export const trustScript = `if [ -n "\${MOTE_CA:-}" ]; then
  printf '%s\\n' "$MOTE_CA" > /run/mote-ca.pem
  cat /run/mote-ca.pem >> /etc/ssl/certs/ca-certificates.crt
  export NODE_EXTRA_CA_CERTS=/run/mote-ca.pem SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
  export GIT_SSL_CAINFO=$SSL_CERT_FILE CURL_CA_BUNDLE=$SSL_CERT_FILE REQUESTS_CA_BUNDLE=$SSL_CERT_FILE
  export PIP_CERT=$SSL_CERT_FILE CARGO_HTTP_CAINFO=$SSL_CERT_FILE
fi
`
