/** The build plan: what a build installs, runs and starts. Derived from the project's files without running them. */
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

/** A line of a project's file, or null for Mote's default. */
export interface Place {
  readonly file: string
  readonly line: number
}

export interface ToolVersion {
  readonly tool: ToolName
  /** As the project writes it, without a leading `v`: `22`, `1.26.0`, `>=20 <23`. */
  readonly version: string
  readonly from: Place | null
}

export interface BuildPlan {
  readonly provider: ProviderName
  readonly framework: string | null
  readonly tools: readonly ToolVersion[]
  /** Lines of /bin/sh, run in order. */
  readonly install: readonly string[]
  readonly build: readonly string[]
  /** A line of /bin/sh that listens on `$PORT`; null for a static site and for a Dockerfile. */
  readonly start: string | null
  /** The directory that a static site is served from. */
  readonly staticDir: string | null
  /** A port that the project fixes; null if it listens on `$PORT`. */
  readonly port: number | null
  /** Tools of another language that the project names too; undefined: none. */
  readonly beside?: readonly ToolVersion[]
  /** Packages to install beside the tools; undefined: none. */
  readonly debian?: DebianPackages
  /** What `.dockerignore` excludes from the source, see `ignoredBy`; undefined: nothing, or there is a Dockerfile. */
  readonly ignored?: string
  /** Lines for the log. */
  readonly note?: string | null
  /** Only in the plan of a Dockerfile: its path. */
  readonly dockerfile?: string
  /** Only in the plan of a Gradle project: the line that chooses Gradle. */
  readonly gradle?: Place
  /** Only in the plan of a Node project, or of one whose assets Node builds. */
  readonly node?: NodeSteps
}

/** Names of Debian packages. */
export interface DebianPackages {
  /** Only for the commands of the build. */
  readonly build: readonly string[]
  /** Also in the image of the app. */
  readonly run: readonly string[]
}

/** Steps of a Node project that depend on its package manager. */
export interface NodeSteps {
  readonly packages: ToolPackages
  /** Removes development dependencies; null if there are none, because starting npm is slow. */
  readonly prune: string | null
  /** Whether the packages stay in Yarn's archives, which then are part of the app. */
  readonly pnp: boolean
  /** The `start` script itself: a process of the package manager takes memory and no signals. */
  readonly script: string | null
}

export interface Provider {
  readonly name: ProviderName
  /** Whether the project is one of this provider. */
  readonly detect: (project: Project) => boolean
  /** @throws BuildFault that names the file, the line and what to change */
  readonly plan: (project: Project) => Omit<BuildPlan, 'provider'>
}
