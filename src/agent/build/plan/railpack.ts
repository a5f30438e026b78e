/**
 * Applies railpack.json, the configuration file of the builder Railpack, to a plan. Settings that Mote's builds do
 * not support are refused with their line.
 */
import { isFetched, takesOthers } from './beside.ts'
import { debianTools, isDebianName, noPackages, withPackages } from './debian.ts'
import { faultAt, lineAt, objectOr, type Project, stringOr } from './project.ts'
import { railpackStart, startedBy } from './start.ts'
import { type BuildPlan, type ProviderName, providerNames, toolNames, type ToolVersion } from './types.ts'
import { versionOf } from './versions.ts'

const file = 'railpack.json'

/** Railpack's names of providers that have another name in Mote. */
const providerAliases: Readonly<Partial<Record<string, ProviderName>>> = { golang: 'go', staticfile: 'static' }

/** Settings that only arrange the layers and caches of Railpack's image, and are ignored. */
const layout: ReadonlySet<string> = new Set(['$schema', 'caches', 'secrets', 'inputs', 'deployOutputs'])

function faultOf(project: Project, key: string, message: string) {
  const text = project.text(file)
  return faultAt({ file, line: lineAt(text, text.indexOf(`"${key}"`)) }, message)
}

/** Returns the provider that railpack.json names. @throws BuildFault if there is no such provider */
export function railpackProvider(project: Project): ProviderName | undefined {
  const name = stringOr(project.json(file)['provider'])
  if (name === undefined) return undefined
  const found = providerAliases[name] ?? providerNames.find(one => one === name)
  if (found === undefined)
    throw faultOf(project, 'provider', `"${name}" is no provider. Use one of: ${providerNames.join(', ')}.`)
  return found
}

/** Returns the plan with the settings of railpack.json. @throws BuildFault if a setting has no equivalent */
export function withRailpackFile(project: Project, plan: BuildPlan): BuildPlan {
  const config = project.json(file)
  const { steps, deploy } = { steps: objectOr(config['steps']), deploy: objectOr(config['deploy']) }
  refuseOthers(project, config, ['provider', 'packages', 'steps', 'deploy', 'buildAptPackages'])
  refuseOthers(project, deploy, ['startCommand', 'aptPackages'])
  refuseOthers(project, steps, ['install', 'build'])
  const extra = Object.entries(objectOr(config['packages']))
    .filter(([name]) => !plan.tools.some(({ tool }) => tool === name))
    .map(([name, version]) => toolBeside(project, name, String(version), plan))
  const named = {
    build: aptPackages(project, config, 'buildAptPackages'),
    run: [...aptPackages(project, deploy, 'aptPackages'), ...extra.flatMap(({ packages = [] }) => packages)],
  }
  const tools = [...plan.tools, ...extra.flatMap(({ listed = [] }) => listed)]
  const fetched = extra.flatMap(one => one.fetched ?? [])
  const others = (plan.beside ?? []).filter(({ tool }) => !fetched.some(one => one.tool === tool))
  const beside = [...others, ...fetched]
  const given = {
    install: commandsOf(project, objectOr(steps['install']), plan.install),
    build: commandsOf(project, objectOr(steps['build']), plan.build),
  }
  const debian = withPackages(plan.debian ?? noPackages, named)
  const more = beside.length === 0 ? {} : { beside }
  return startedBy({ ...plan, ...given, ...more, tools, debian }, railpackStart(project))
}

function aptPackages(project: Project, settings: Record<string, unknown>, key: string): readonly string[] {
  const listed: unknown = settings[key] ?? []
  if (!Array.isArray(listed)) throw faultOf(project, key, `"${key}" is no list. Write names of Debian packages in [ ].`)
  return listed.flatMap((name: unknown) => {
    if (name === '...') return []
    if (typeof name !== 'string' || !isDebianName(name))
      throw faultOf(project, key, `${JSON.stringify(name).slice(0, 80)} is no name of a Debian package.`)
    return [name]
  })
}

interface ToolBeside {
  readonly packages?: readonly string[]
  readonly fetched?: ToolVersion
  readonly listed?: readonly ToolVersion[]
}

/**
 * Returns how to install a tool that railpack.json adds: Node and Go are downloaded, other tools come from Debian if it
 * has the version.
 */
function toolBeside(project: Project, name: string, version: string, plan: BuildPlan): ToolBeside {
  const known = toolNames.find(one => one === name)
  const wanted = known === undefined ? undefined : versionOf(project, known)
  if (wanted && takesOthers(plan.provider) && isFetched(wanted)) return { fetched: wanted }
  const tool = debianTools.get(name)
  if (tool === undefined) throw faultOf(project, name, packageFault(name, plan))
  if (version !== 'latest' && version !== tool.version && !tool.version.startsWith(`${version}.`))
    throw faultOf(
      project,
      name,
      `A build of ${plan.provider} has ${name} ${tool.version}, not ${version}. Change the line, or add a Dockerfile.`,
    )
  return { packages: tool.packages, listed: wanted ? [wanted] : [] }
}

const packageFault = (name: string, { provider }: BuildPlan) =>
  toolNames.some(tool => tool === name)
    ? `A build of ${provider} does not install ${name}. Add a Dockerfile that does.`
    : `Builds cannot install "${name}". Add a Dockerfile that does.`

function refuseOthers(project: Project, settings: Record<string, unknown>, known: readonly string[]): void {
  for (const [key, value] of Object.entries(settings)) {
    const isEmpty = Array.isArray(value) && value.every(one => one === '...')
    if (!known.includes(key) && !layout.has(key) && !isEmpty)
      throw faultOf(project, key, `Builds have no setting "${key}". Add a Dockerfile that does the same, or remove it.`)
  }
}

/**
 * Returns the commands of a step; `...` stands for the planned ones. Railpack's copy and path entries are skipped,
 * because a build in Mote has the whole source and a single PATH.
 */
function commandsOf(project: Project, step: Record<string, unknown>, planned: readonly string[]): readonly string[] {
  refuseOthers(project, step, ['commands', 'variables'])
  const exports = exportsOf(project, objectOr(step['variables']))
  const listed: readonly unknown[] = Array.isArray(step['commands']) ? step['commands'] : ['...']
  const commands = listed.flatMap(one => {
    if (one === '...') return planned
    return stringOr(one) ?? stringOr(objectOr(one)['cmd']) ?? []
  })
  return commands.map(line => exports + line)
}

/**
 * Returns an `export` of the step's variables. It is put before each command, because each one runs in a separate
 * shell.
 */
function exportsOf(project: Project, variables: Record<string, unknown>): string {
  const one = ([name, value]: [string, unknown]) => {
    const text = String(value)
    if (!/^[A-Za-z_]\w*$/.test(name) || text.includes('\n'))
      throw faultOf(project, name, `"${name.slice(0, 80)}" is no variable of one line.`)
    return `${name}='${text.replaceAll("'", `'\\''`)}'`
  }
  const assigned = Object.entries(variables).map(one)
  return assigned.length === 0 ? '' : `export ${assigned.join(' ')}; `
}
