/** Tools that `mise.toml` or `.tool-versions` names beside those of the project's own language. */
import { BuildFault } from '../fault.ts'
import { debianReplaces, debianTools, noPackages, withPackages } from './debian.ts'
import type { Project } from './project.ts'
import { goToolchainOf } from './toolchains.ts'
import { type BuildPlan, type ProviderName, type ToolName, toolNames, type ToolVersion } from './types.ts'
import { toolFiles, versionInToolFile } from './versions.ts'

/** buildah has its own tools, a static site has no commands, and the images of Maven and Java have no place for others. */
const alone: ReadonlySet<ProviderName> = new Set(['dockerfile', 'static', 'java'])
export const takesOthers = (provider: ProviderName) => !alone.has(provider)
/** Names of mise and asdf that are not those of Mote. */
const aliases: ReadonlySet<string> = new Set(['nodejs', 'golang', 'dotnet-core'])
const mostNotes = 10

/** How the builder gets a tool of another language, or why it does not. */
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

/** Whether the builder fetches the tool, whatever its version is. @throws BuildFault if Go is too new */
export const isFetched = (wanted: ToolVersion) =>
  wanted.tool === 'node' || (wanted.tool === 'go' && goToolchainOf(wanted) !== null)

/** The plan with the tools that the project names too. What builds do not have is said in the log: it may only be for developers. */
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

/** Whether the image of the app is one of Debian, where programs of other languages run. */
export const hasDebian = ({ provider, staticDir }: BuildPlan) => provider !== 'go' && staticDir === null

/** Tools that no build has. */
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
