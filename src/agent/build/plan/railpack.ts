/** railpack.json: the settings of Railpack that a build of Mote has too. Others are refused with their line. */
import { faultAt, lineAt, objectOr, type Project, stringOr } from './project.ts'
import { railpackStart, startedBy } from './start.ts'
import { type BuildPlan, type ProviderName, providerNames, toolNames } from './types.ts'

const file = 'railpack.json'

/** The names of Railpack, where they differ from Mote's. */
const providerAliases: Readonly<Partial<Record<string, ProviderName>>> = { golang: 'go', staticfile: 'static' }

/** Settings that only arrange the layers and caches of Railpack's image. */
const layout: ReadonlySet<string> = new Set(['$schema', 'caches', 'secrets', 'inputs', 'deployOutputs'])

function faultOf(project: Project, key: string, message: string) {
  const text = project.text(file)
  return faultAt({ file, line: lineAt(text, text.indexOf(`"${key}"`)) }, message)
}

/** @throws BuildFault if there is no such provider */
export function railpackProvider(project: Project): ProviderName | undefined {
  const name = stringOr(project.json(file)['provider'])
  if (name === undefined) return undefined
  const found = providerAliases[name] ?? providerNames.find(one => one === name)
  if (found === undefined)
    throw faultOf(project, 'provider', `"${name}" is no provider. Use one of: ${providerNames.join(', ')}.`)
  return found
}

/** @throws BuildFault if a setting has no equivalent */
export function withRailpackFile(project: Project, plan: BuildPlan): BuildPlan {
  const config = project.json(file)
  const { steps, deploy } = { steps: objectOr(config['steps']), deploy: objectOr(config['deploy']) }
  refuseOthers(project, config, ['provider', 'packages', 'steps', 'deploy'])
  refuseOthers(project, deploy, ['startCommand'])
  refuseOthers(project, steps, ['install', 'build'])
  for (const name of Object.keys(objectOr(config['packages'])))
    if (!plan.tools.some(({ tool }) => tool === name)) throw faultOf(project, name, packageFault(name, plan))
  const given = {
    install: commandsOf(project, objectOr(steps['install']), plan.install),
    build: commandsOf(project, objectOr(steps['build']), plan.build),
  }
  return startedBy({ ...plan, ...given }, railpackStart(project))
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

/** Copies and paths are left out, because a build has the whole source and one PATH. */
function commandsOf(project: Project, step: Record<string, unknown>, planned: readonly string[]): readonly string[] {
  refuseOthers(project, step, ['commands'])
  if (!Array.isArray(step['commands'])) return planned
  const listed: readonly unknown[] = step['commands']
  return listed.flatMap(one => {
    if (one === '...') return planned
    return stringOr(one) ?? stringOr(objectOr(one)['cmd']) ?? []
  })
}
