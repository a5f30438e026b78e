/**
 * Size of a build VM. It counts toward the host's capacity, but not toward the project's plan, which limits the build
 * time instead.
 */
export const buildSize = { vcpus: 1, memoryMib: 1024, diskMib: 8192 } as const

/** Maximum size of a compressed source upload. */
export const maxUploadBytes = 64 << 20

const scheme = 'upload:sha256:'

/** Returns the text that is stored in place of a repository URL if the source was uploaded. */
export const uploadUrl = (digest: string) => `${scheme}${digest}`
/** Returns the digest of the uploaded source from a text made by `uploadUrl`; undefined for a repository URL. */
export const uploadDigest = (url: string) => (url.startsWith(scheme) ? url.slice(scheme.length) : undefined)

export interface GitPlace {
  readonly transport: 'http' | 'ssh'
  /** Host name of the git server, with the port if it is not the default. */
  readonly host: string
}

/**
 * Returns the host and transport of a repository address: `https:`, `http:`, `ssh:` or `user@host:path`. Undefined when
 * the address has another form.
 */
export function gitPlace(gitUrl: string): GitPlace | undefined {
  const scp = /^[\w.-]+@([\w.-]+):(?!\/)/.exec(gitUrl)?.[1]
  if (scp !== undefined) return { transport: 'ssh', host: scp.toLowerCase() }
  const url = URL.parse(gitUrl)
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return { transport: 'http', host: url.host }
  if (url?.protocol === 'ssh:') return { transport: 'ssh', host: url.host.toLowerCase().replace(/:22$/, '') }
  return undefined
}
