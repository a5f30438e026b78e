/**
 * The build plan: what a build installs, runs and starts. It is derived from the project's files without running any of
 * them.
 */
import type { ToolPackages } from './node/packages.ts'
import type { Project } from './project.ts'

export const providerNames = [
  'dockerfile',
  'php',
  'go',
  'java',
  'rust',
  'ruby',
  'elixir',
  'python',
  'deno',
  'dotnet',
  'node',
  'gleam',
  'cpp',
  'static',
  'shell',
] as const
export type ProviderName = (typeof providerNames)[number]

export const toolNames = [
  'node',
  'npm',
  'pnpm',
  'yarn',
  'bun',
  'python',
  'uv',
  'poetry',
  'pdm',
  'pipenv',
  'go',
  'rust',
  'ruby',
  'java',
  'php',
  'dotnet',
  'deno',
  'elixir',
  'erlang',
  'gleam',
] as const
export type ToolName = (typeof toolNames)[number]

/** A line in one of the project's files, which error messages and the log refer to. */
export interface Place {
  readonly file: string
  readonly line: number
}

export interface ToolVersion {
  readonly tool: ToolName
  /** The version as the project writes it, without a leading `v`: `22`, `1.26.0`, `>=20 <23`. */
  readonly version: string
  readonly from: Place | null
}

export interface BuildPlan {
  readonly provider: ProviderName
  readonly framework: string | null
  readonly tools: readonly ToolVersion[]
  /** Command lines for /bin/sh, which the build runs in this order. */
  readonly install: readonly string[]
  readonly build: readonly string[]
  /**
   * A command line for /bin/sh that starts the app, listening on `$PORT`; null for a static site and for a Dockerfile.
   */
  readonly start: string | null
  /** The directory from which a static site is served; null if the app has a server. */
  readonly staticDir: string | null
  /** The port that a Dockerfile exposes; null if the app listens on `$PORT`. */
  readonly port: number | null
  /** Tools of other languages that the project also names; undefined: none. */
  readonly beside?: readonly ToolVersion[]
  /** Debian packages to install; undefined: none. */
  readonly debian?: DebianPackages
  /** Patterns from `.dockerignore`, see `ignoredBy`; undefined if nothing is excluded, or if there is a Dockerfile. */
  readonly ignored?: string
  /** Notes for the build log, separated by line breaks. */
  readonly note?: string | null
  /** Path of the Dockerfile; undefined in plans of other providers. */
  readonly dockerfile?: string
  /** For a Gradle project: the line that shows that it uses Gradle. */
  readonly gradle?: Place
  /** The steps that Node runs; set for Node projects, and for other projects with assets that Node builds. */
  readonly node?: NodeSteps
}

/** Names of Debian packages that a project needs. */
export interface DebianPackages {
  /** Packages that only the build commands need. */
  readonly build: readonly string[]
  /** Packages that the app's image needs, too. */
  readonly run: readonly string[]
}

/** The part of a plan that depends on the Node package manager. */
export interface NodeSteps {
  readonly packages: ToolPackages
  /** The command that removes development dependencies; null if there are none, because starting npm is slow. */
  readonly prune: string | null
  /** Whether Yarn keeps the dependencies in archives (Plug'n'Play), which then become part of the app. */
  readonly pnp: boolean
  /**
   * The content of the `start` script, which is run without the package manager: that would use memory and not pass on
   * signals.
   */
  readonly script: string | null
}

export interface Provider {
  readonly name: ProviderName
  /** Whether this provider can build the project. */
  readonly detect: (project: Project) => boolean
  /** Plans the build of a project. @throws BuildFault that names the file, the line and what to change */
  readonly plan: (project: Project) => Omit<BuildPlan, 'provider'>
}
