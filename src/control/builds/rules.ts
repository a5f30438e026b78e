/**
 * Size of a build VM. It counts toward the host's capacity, but not toward the project's plan, because build time is
 * limited.
 */
export const buildSize = { vcpus: 1, memoryMib: 1024, diskMib: 8192 } as const

/** Maximum size of a compressed source upload. */
export const maxUploadBytes = 64 << 20

const scheme = 'upload:sha256:'

/** Returns the text that stands for an uploaded source where a build otherwise has its repository URL. */
export const uploadUrl = (digest: string) => `${scheme}${digest}`
/** Returns the digest in a text that `uploadUrl` has returned; undefined for a repository URL. */
export const uploadDigest = (url: string) => (url.startsWith(scheme) ? url.slice(scheme.length) : undefined)

export interface GitPlace {
  readonly transport: 'http' | 'ssh'
  /** Host name, with the port if it is not the default. */
  readonly host: string
}

/**
 * Returns the host and transport of a repository address; undefined when it is not supported. Accepts `https:`,
 * `http:`, `ssh:` and `user@host:path`.
 */
export function gitPlace(gitUrl: string): GitPlace | undefined {
  const scp = /^[\w.-]+@([\w.-]+):(?!\/)/.exec(gitUrl)?.[1]
  if (scp !== undefined) return { transport: 'ssh', host: scp.toLowerCase() }
  const url = URL.parse(gitUrl)
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return { transport: 'http', host: url.host }
  if (url?.protocol === 'ssh:') return { transport: 'ssh', host: url.host.toLowerCase().replace(/:22$/, '') }
  return undefined
}
