/** Network settings of this host that test systems share: mirrors, proxies, certificate authorities. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { run } from '../../src/lib/exec.ts'

/** Environment variables that are passed on to test systems, because they configure a proxy or trusted certificates. */
const carried = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'GIT_SSL_CAINFO',
  'CURL_CA_BUNDLE',
] as const

export function carriedEnvironment(env: NodeJS.ProcessEnv = process.env): Record<string, string> {
  return Object.fromEntries(carried.flatMap(name => (env[name] ? [[name, env[name]]] : [])))
}

/** Directories with the certificates that this host trusts. They are copied to the same paths in each test system. */
export const certificatePaths = ['/usr/local/share/ca-certificates', '/etc/ssl/certs'].filter(path => existsSync(path))

/** Returns this machine's apt options for access to mirrors. */
export async function aptOptions(): Promise<string[]> {
  const text = await run('apt-config', ['dump'])
  return text.split('\n').filter(line => /^Acquire::(?:https?|Check-\S+|ForceIPv4)\S* "/.test(line))
}

export interface Mirrors {
  readonly main: string
  readonly security: string | undefined
}

/** Returns this machine's mirrors if it runs Debian; otherwise undefined, and mmdebstrap uses its defaults. */
export async function mirrors(): Promise<Mirrors | undefined> {
  const format = ['--format', '$(REPO_URI) $(RELEASE) $(ORIGIN)', 'Created-By: Packages']
  const lines = (await run('apt-get', ['indextargets', ...format])).split('\n').map(line => line.split(' '))
  const isDebian = /^ID=debian$/m.test(await readFile('/etc/os-release', 'utf8'))
  const uriOf = (isWanted: (release: string) => boolean) => lines.find(([, release = '']) => isWanted(release))?.[0]
  const main = uriOf(release => /^[a-z]+$/.test(release))
  if (!isDebian || main === undefined) return undefined
  return { main, security: uriOf(release => /^[a-z]+-security$/.test(release)) }
}

const npmSettings = ['registry', 'cafile', 'proxy', 'https-proxy', 'noproxy'] as const

/** Returns an .npmrc with the network settings of this machine's npm. */
export async function npmrc(): Promise<string> {
  const config: unknown = JSON.parse(await run('npm', ['config', 'list', '--json', '--loglevel=error']))
  const lines = npmSettings.flatMap(name => {
    const value: unknown = typeof config === 'object' && config !== null ? Reflect.get(config, name) : undefined
    return typeof value === 'string' && value !== '' ? [`${name}=${value}\n`] : []
  })
  return lines.join('')
}

/**
 * Returns the contents of a resolv.conf for test systems. They cannot reach a DNS server on this host's loopback
 * interface, so the upstream servers of systemd-resolved are used instead.
 */
export async function resolverFile(): Promise<string> {
  const own = await readFile('/etc/resolv.conf', 'utf8')
  const upstream = '/run/systemd/resolve/resolv.conf'
  const reachable = (text: string) => /^nameserver (?!127\.|::1)/m.test(text)
  return reachable(own) || !existsSync(upstream) ? own : readFile(upstream, 'utf8')
}
