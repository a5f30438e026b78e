/** What a build gets; it is counted against the room of a host, not against the plan: its time is limited. */
export const buildSize = { vcpus: 1, memoryMib: 1024, diskMib: 8192 } as const

/** A source as it is sent, compressed. */
export const maxUploadBytes = 64 << 20

const scheme = 'upload:sha256:'

/** Stands in the place of a repository's address. */
export const uploadUrl = (digest: string) => `${scheme}${digest}`
/** Undefined: it is the address of a repository. */
export const uploadDigest = (url: string) => (url.startsWith(scheme) ? url.slice(scheme.length) : undefined)

export interface GitPlace {
  readonly transport: 'http' | 'ssh'
  /** With its port, where that is not the usual one. */
  readonly host: string
}

/** Where a repository is, and how it is fetched; undefined: not at all. Takes `https:`, `http:`, `ssh:` and `user@host:path`. */
export function gitPlace(gitUrl: string): GitPlace | undefined {
  const scp = /^[\w.-]+@([\w.-]+):(?!\/)/.exec(gitUrl)?.[1]
  if (scp !== undefined) return { transport: 'ssh', host: scp.toLowerCase() }
  const url = URL.parse(gitUrl)
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return { transport: 'http', host: url.host }
  if (url?.protocol === 'ssh:') return { transport: 'ssh', host: url.host.toLowerCase().replace(/:22$/, '') }
  return undefined
}
