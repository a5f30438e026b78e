/**
 * Loads certificates from a directory, as pairs of PEM files: `<name>.crt` (the certificate, then its chain) and
 * `<name>.key`.
 */
import { X509Certificate, createPrivateKey } from 'node:crypto'
import { readFile, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type SecureContext, createSecureContext } from 'node:tls'
import type { Logger } from 'pino'

export interface CertificateFiles {
  /**
   * Returns the certificate with exactly this name, otherwise one with a wildcard for the first label (RFC 9525, 6.3).
   */
  find(hostname: string): SecureContext | undefined
  stop(): Promise<void>
}

/**
 * Polling interval. A file watcher would miss changes by tools that replace files by renaming them or changing a link.
 */
const reloadMs = 2000

interface Loaded {
  readonly fingerprint: string
  readonly names: readonly string[]
  readonly context: SecureContext
}

/**
 * Loads the certificates and reloads changed ones. An invalid pair is logged and skipped, or its previous version stays
 * in use.
 * @throws Error when the directory is unreadable at the start
 */
export async function watchCertificateFiles(
  dir: string,
  log: Logger,
  options: { readonly everyMs?: number } = {},
): Promise<CertificateFiles> {
  const stopping = new AbortController()
  let pairs = new Map<string, Loaded>()
  let byName = new Map<string, SecureContext>()
  const reload = async () => {
    const next = new Map<string, Loaded>()
    for (const file of (await readdir(dir)).filter(one => one.endsWith('.crt'))) {
      const loaded = await load(dir, file, pairs.get(file), log)
      if (loaded) next.set(file, loaded)
    }
    pairs = next
    byName = new Map([...next.values()].flatMap(({ names, context }) => names.map(name => [name, context] as const)))
  }
  await reload()
  const reloading = (async () => {
    while (!stopping.signal.aborted) {
      await delay(options.everyMs ?? reloadMs, undefined, { signal: stopping.signal }).catch(() => {})
      if (!stopping.signal.aborted)
        await reload().catch((cause: unknown) => log.warn({ err: cause, dir }, 'cannot read the certificate directory'))
    }
  })()
  return {
    find: hostname => byName.get(hostname) ?? byName.get(`*.${hostname.slice(hostname.indexOf('.') + 1)}`),
    async stop() {
      stopping.abort()
      await reloading
    },
  }
}

async function load(dir: string, file: string, before: Loaded | undefined, log: Logger): Promise<Loaded | undefined> {
  const crt = join(dir, file)
  const key = crt.replace(/\.crt$/, '.key')
  let fingerprint = ''
  try {
    const stats = await Promise.all([stat(crt), stat(key)])
    fingerprint = stats.map(one => `${one.ino} ${one.mtimeMs} ${one.size}`).join(' ')
    if (before?.fingerprint === fingerprint) return before
    const [chain, privateKey] = await Promise.all([readFile(crt, 'utf8'), readFile(key, 'utf8')])
    const certificate = new X509Certificate(chain)
    if (!certificate.checkPrivateKey(createPrivateKey(privateKey)))
      throw new Error('the key does not match the certificate')
    const context = createSecureContext({ cert: chain, key: privateKey })
    log.info({ file, names: namesOf(certificate), until: certificate.validTo }, 'a certificate was loaded')
    return { fingerprint, names: namesOf(certificate), context }
  } catch (cause) {
    // The file may be only partly written. The old certificate stays in use until the new one is complete.
    log.warn({ err: cause, file }, 'cannot load a certificate')
    return before && { ...before, fingerprint }
  }
}

const namesOf = (certificate: X509Certificate): string[] =>
  (certificate.subjectAltName ?? '')
    .split(', ')
    .filter(entry => entry.startsWith('DNS:'))
    .map(entry => entry.slice(4).toLowerCase())
