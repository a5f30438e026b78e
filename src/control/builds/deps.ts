import type { Deps } from '../base/deps.ts'

/** For HTTP basic authentication, or for SSH. */
export type SourceCredential =
  | { readonly username: string; readonly password: string }
  | { readonly privateKey: string; readonly knownHosts: string }

/** Returns the credential that reads the repository of a build; undefined when it is public. */
export type SourceAuth = (build: {
  readonly appId: string
  readonly projectId: string
  readonly gitUrl: string
  readonly scmInstallationId: number | null
}) => Promise<SourceCredential | undefined>

export type BuildDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'vault'> & { readonly sourceAuth: SourceAuth }
