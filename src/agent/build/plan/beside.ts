/** Tools that `mise.toml` or `.tool-versions` names in addition to those of the project's own language. */
import { BuildFault } from '../fault.ts'
import { debianReplaces, debianTools, noPackages, withPackages } from './debian.ts'
import type { Project } from './project.ts'
import { goToolchainOf } from './toolchains.ts'
import { type BuildPlan, type ProviderName, type ToolName, toolNames, type ToolVersion } from './types.ts'
import { toolFiles, versionInToolFile } from './versions.ts'

/**
 * Providers that get no additional tools: buildah has its own, a static site runs no commands, and the Java images
 * cannot hold any.
 */
const alone: ReadonlySet<ProviderName> = new Set(['dockerfile', 'static', 'java'])
export const takesOthers = (provider: ProviderName) => !alone.has(provider)
/** Names that mise and asdf use for tools with another name in Mote. */
const aliases: ReadonlySet<string> = new Set(['nodejs', 'golang', 'dotnet-core'])
const mostNotes = 10

/** How the builder gets a tool of another language, or why it does not install the tool. */
type Way =
  | { readonly kind: 'fetched' }
  | { readonly kind: 'debian'; readonly packages: readonly string[]; readonly note?: string }
  | { readonly kind: 'none'; readonly reason: string }

function wayOf(wanted: ToolVersion): Way {
  const { tool, version } = wanted
  if (tool === 'node') return { kind: 'fetched' }
  if (tool === 'go') return goWay(wanted)
  const debian = debianTools.get(tool)
  if (debian === undefined) return { kind: 'none', reason: `builds of another language do not install ${tool}` }
  const { packages } = debian
  if (!debianReplaces(tool, version))
    return { kind: 'none', reason: `builds have ${tool} ${debian.version} beside another language, not ${version}` }
  const isSame = version.startsWith(debian.version) || debian.version.startsWith(`${version}.`)
  return { kind: 'debian', packages, ...(isSame ? {} : { note: `builds have ${tool} ${debian.version} instead` }) }
}

function goWay(wanted: ToolVersion): Way {
  try {
    if (goToolchainOf(wanted) !== null) return { kind: 'fetched' }
    return { kind: 'debian', packages: debianTools.get('go')?.packages ?? [] }
  } catch (error) {
    if (error instanceof BuildFault) return { kind: 'none', reason: `Go ${wanted.version} is not available` }
    throw error
  }
}

/** Whether the builder downloads the tool instead of installing it from Debian. @throws BuildFault if Go is too new */
export const isFetched = (wanted: ToolVersion) =>
  wanted.tool === 'node' || (wanted.tool === 'go' && goToolchainOf(wanted) !== null)

/**
 * Returns the plan with the additional tools. A tool that builds do not install is only noted in the log, because it
 * may be for developers only.
 */
export function withToolsBeside(project: Project, plan: BuildPlan): BuildPlan {
  if (!takesOthers(plan.provider)) return plan
  const own: ReadonlySet<ToolName> = new Set(plan.tools.map(({ tool }) => tool))
  const named = toolNames
    .filter(tool => !own.has(tool))
    .flatMap(tool => versionInToolFile(project, tool) ?? [])
    .map(wanted => ({ wanted, way: wayOf(wanted) }))
  const notes = [
    ...named.flatMap(({ wanted: { from }, way }) => {
      const text = way.kind === 'none' ? way.reason : way.kind === 'debian' ? way.note : undefined
      return text === undefined || from === null ? [] : [`${from.file}, line ${from.line}: ${text}`]
    }),
    ...unknownIn(project),
  ].slice(0, mostNotes)
  const fetched = named.flatMap(({ wanted, way }) => (way.kind === 'fetched' ? [wanted] : []))
  const packages = named.flatMap(({ way }) => (way.kind === 'debian' ? way.packages : []))
  const needs = hasDebian(plan) ? { build: [], run: packages } : { build: packages, run: [] }
  return {
    ...plan,
    ...(fetched.length === 0 ? {} : { beside: fetched }),
    ...(packages.length === 0 ? {} : { debian: withPackages(plan.debian ?? noPackages, needs) }),
    ...(notes.length === 0 ? {} : { note: [...(plan.note ? [plan.note] : []), ...notes].join('\n') }),
  }
}

/** Whether the app's image contains Debian, so that programs of other languages run there. */
export const hasDebian = ({ provider, staticDir }: BuildPlan) => provider !== 'go' && staticDir === null

/** Returns log lines about named tools that no build installs. */
function unknownIn(project: Project): string[] {
  const known = (name: string) => aliases.has(name) || toolNames.some(tool => tool === name)
  const mise = project
    .toml('mise.toml')
    .flatMap(({ table, key, line }) => (table === 'tools' ? [{ file: toolFiles[0], name: key, line }] : []))
  const asdf = project
    .text('.tool-versions')
    .split('\n')
    .flatMap((text, n) => {
      const name = /^([\w:@/.-]+)[ \t]+\S/.exec(text)?.[1]
      return name === undefined ? [] : [{ file: toolFiles[1], name, line: n + 1 }]
    })
  return [...mise, ...asdf]
    .filter(({ name }) => !known(name))
    .map(({ file, name, line }) => `${file}, line ${line}: builds do not install ${name.slice(0, 60)}`)
}
