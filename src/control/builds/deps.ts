import type { Deps } from '../deps.ts'

/** The credential that reads the repository of a build, by HTTP basic authentication. Undefined: it is public. */
export type SourceAuth = (build: {
  readonly projectId: string
  readonly gitUrl: string
  readonly scmInstallationId: number | null
}) => Promise<{ readonly username: string; readonly password: string } | undefined>

export type BuildDeps = Pick<Deps, 'db' | 'bus' | 'config'> & { readonly sourceAuth: SourceAuth }
