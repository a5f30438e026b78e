/**
 * The environment of every program that this one starts. Its own holds keys, passwords and tokens, and whoever may look at
 * /proc/<pid>/environ of a child has them, so names are let through one by one.
 */

/** What programs need to find themselves and their files. */
const everywhere = ['HOME', 'TMPDIR', 'TZ'] as const

/** How the host goes to the network: a proxy, and the certificates that it trusts. */
const proxies = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const
const certificateFiles = ['SSL_CERT_FILE', 'GIT_SSL_CAINFO', 'CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS'] as const
const ofNetwork = [...proxies, ...proxies.map(name => name.toLowerCase()), ...certificateFiles, 'SSL_CERT_DIR']

/** They fetch from the network whatever they are run for. */
const networkPrograms: ReadonlySet<string> = new Set(['apt-get', 'git', 'mmdebstrap', 'npm', 'skopeo'])

export interface ChildEnv {
  /** Whether the program goes to the network by itself; default: as it is known to. */
  readonly network?: boolean | undefined
  /** Its own variables, which nothing is taken from. */
  readonly own?: Readonly<Record<string, string>> | undefined
}

/** @param program its name; output of it is in English, since it is parsed */
export function childEnv(program: string, { network, own = {} }: ChildEnv = {}): Record<string, string> {
  const names = (network ?? networkPrograms.has(program)) ? [...everywhere, ...ofNetwork] : everywhere
  const passed = names.flatMap(name => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(passed), PATH: searchPath(), LC_ALL: 'C', ...own }
}

/** Users other than root often lack the sbin directories, where mke2fs and nft live. */
export function searchPath(): string {
  return `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/sbin:/sbin`
}

/**
 * The host's proxy variables, for programs that run in a VM. A proxy on the host's loopback is left out: in a VM that address
 * is the VM itself.
 */
export function hostProxies(): Record<string, string> {
  const isHere = (value: string) => /(?:^|\/\/|@)(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?:[:/]|$)/i.test(value)
  const found: Record<string, string> = {}
  for (const name of proxies) {
    const value = process.env[name] || process.env[name.toLowerCase()] || ''
    if (value === '' || (name !== 'NO_PROXY' && isHere(value))) continue
    // Programs differ in which of the two they read.
    found[name] = value
    found[name.toLowerCase()] = value
  }
  return found
}

/** The files of authorities that the host trusts, by the variable that names them. */
export const hostCertificates = (): ReadonlyArray<readonly [variable: string, file: string]> =>
  certificateFiles.flatMap(name => {
    const file = process.env[name] ?? ''
    return file === '' ? [] : [[name, file] as const]
  })

/** The proxy for HTTPS that programs of the network find in their environment: the host's own way out. */
export function hostProxy(): URL | undefined {
  const given = process.env['HTTPS_PROXY'] ?? process.env['https_proxy'] ?? ''
  if (given === '') return undefined
  return URL.parse(given.includes('://') ? given : `http://${given}`) ?? undefined
}
