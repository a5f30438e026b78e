import type { Deps } from '../base/deps.ts'

/** Credential for reading a git repository, by HTTP basic authentication or SSH. */
export type SourceCredential =
  | { readonly username: string; readonly password: string }
  | { readonly privateKey: string; readonly knownHosts: string }

/** Returns the credential with which a build's repository can be read; undefined when the repository is public. */
export type SourceAuth = (build: {
  readonly appId: string
  readonly projectId: string
  readonly gitUrl: string
  readonly scmInstallationId: number | null
}) => Promise<SourceCredential | undefined>

export type BuildDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'vault'> & { readonly sourceAuth: SourceAuth }
