/**
 * Builds the environment of every program that this process starts. Its own environment contains keys, passwords and
 * tokens, which are readable in /proc/<pid>/environ of a child, so only the variables listed here are passed on.
 */

/** Variables that every program gets: with them it finds its files and the time zone. */
const everywhere = ['HOME', 'TMPDIR', 'TZ'] as const

/** Variables with the addresses of the host's HTTP proxies. */
const proxies = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const
const certificateFiles = ['SSL_CERT_FILE', 'GIT_SSL_CAINFO', 'CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS'] as const
const ofNetwork = [...proxies, ...proxies.map(name => name.toLowerCase()), ...certificateFiles, 'SSL_CERT_DIR']

/** Programs that get the host's proxy and certificates by default, because they always access the network. */
const networkPrograms: ReadonlySet<string> = new Set(['apt-get', 'git', 'mmdebstrap', 'npm', 'skopeo'])

export interface ChildEnv {
  /** Whether the program accesses the network; default: depends on its name. */
  readonly network?: boolean | undefined
  /** Additional variables, which the program gets unchanged. */
  readonly own?: Readonly<Record<string, string>> | undefined
}

/**
 * Returns the environment for a program. Its output is in English, because it is parsed.
 * @param program its name
 */
export function childEnv(program: string, { network, own = {} }: ChildEnv = {}): Record<string, string> {
  const names = (network ?? networkPrograms.has(program)) ? [...everywhere, ...ofNetwork] : everywhere
  const passed = names.flatMap(name => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(passed), PATH: searchPath(), LC_ALL: 'C', ...own }
}

/**
 * Returns the PATH with the sbin directories, which contain mke2fs and nft, and which users other than root often lack.
 */
export function searchPath(): string {
  return `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/sbin:/sbin`
}

/**
 * Returns the host's proxy variables for programs in a VM, except a proxy on the host's loopback, which a VM cannot
 * reach.
 */
export function hostProxies(): Record<string, string> {
  const isHere = (value: string) => /(?:^|\/\/|@)(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?:[:/]|$)/i.test(value)
  const found: Record<string, string> = {}
  for (const name of proxies) {
    const value = process.env[name] || process.env[name.toLowerCase()] || ''
    if (value === '' || (name !== 'NO_PROXY' && isHere(value))) continue
    // Set the name in upper and lower case, because programs differ in which they read.
    found[name] = value
    found[name.toLowerCase()] = value
  }
  return found
}

/** Returns the variables that name files of trusted certificate authorities on the host, and their values. */
export const hostCertificates = (): ReadonlyArray<readonly [variable: string, file: string]> =>
  certificateFiles.flatMap(name => {
    const file = process.env[name] ?? ''
    return file === '' ? [] : [[name, file] as const]
  })

/** Returns the HTTPS proxy in the host's environment. */
export function hostProxy(): URL | undefined {
  const given = process.env['HTTPS_PROXY'] ?? process.env['https_proxy'] ?? ''
  if (given === '') return undefined
  return URL.parse(given.includes('://') ? given : `http://${given}`) ?? undefined
}
