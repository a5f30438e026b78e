/** Compares a stack with the installation. */
import { faultText } from '../compose/faults.ts'
import type { Finding } from '../compose/reader.ts'
import type { Stack, StackService } from '../compose/stack.ts'
import { isEmpty, type Plan, planOf, planText } from '../appfile/plan.ts'
import type { EffectiveFile } from '../appfile/effective.ts'
import { type App, everyItem } from '../client/index.ts'
import { readState } from './app-state.ts'
import { type Addresses, readStack, type StackSource } from './compose-files.ts'
import { sendBuild } from './compose-build.ts'
import type { Call } from './verb.ts'

export interface ServicePlan {
  readonly service: StackService
  readonly file: EffectiveFile
  readonly plan: Plan
  /** The uploaded folder, if it was uploaded to compare it. */
  readonly source: string | undefined
}

export interface StackPlan {
  readonly stack: Stack
  readonly services: readonly ServicePlan[]
  /** Apps of the stack that the files no longer have. */
  readonly left: readonly string[]
}

const unknownHost = 'is-known-once-the-app-exists.invalid'

export const appsOf = (call: Call): Promise<App[]> =>
  Array.fromAsync(everyItem(query => call.client.listApps({ query })))

/** Reads the files twice: the addresses of apps can be part of variables, and depend on the names of services. */
export async function currentStack(call: Call, source: StackSource, apps: readonly App[]): Promise<Stack> {
  const names = await readStack(source)
  return readStack(source, addressesOf(call, names, apps))
}

function addressesOf(call: Call, { services }: Stack, apps: readonly App[]): Addresses {
  return new Map(
    services.map(({ name, app }) => {
      const host = apps.find(one => one.name === app.app)?.hostname ?? unknownHost
      return [name, { app: app.app, host, url: urlOf(call.url, host) }]
    }),
  )
}

/** As `mote open` shows it: the embedded gateway has no certificate. */
function urlOf(api: string, host: string): string {
  const { protocol, port } = new URL(api)
  return `${protocol}//${host}${port === '7070' ? ':7080' : ''}`
}

/** @throws Error if an app of that name does not belong to the stack */
export async function planStack(call: Call, source: StackSource): Promise<StackPlan> {
  const apps = await appsOf(call)
  const stack = await currentStack(call, source, apps)
  const strangers = stack.services.flatMap(({ name, app }) => {
    const found = apps.find(one => one.name === app.app)
    if (!found) return []
    if (found.stack !== stack.name)
      return [
        `The app ${app.app} exists${found.stack === null ? '' : ` in the stack ${found.stack}`}, so the service ${name} cannot have its name.`,
      ]
    return found.kind === app.kind ? [] : [changedKind(name, found)]
  })
  if (strangers.length > 0)
    throw new Error(
      [...strangers, 'Nothing was changed. Use another project (--project), or other names of services.'].join('\n'),
    )
  const services: ServicePlan[] = []
  for (const service of stack.services) services.push(await planService(call, service))
  const names = new Set(stack.services.map(({ app }) => app.app))
  return {
    stack,
    services,
    left: apps.filter(app => app.stack === stack.name && !names.has(app.name)).map(app => app.name),
  }
}

const changedKind = (name: string, { kind, name: app }: App) =>
  `The service ${name} ${kind === 'worker' ? 'now publishes an HTTP port' : 'no longer publishes an HTTP port'}, which an app cannot change. Delete the app first: mote apps delete ${app}`

export async function planService(call: Call, service: StackService): Promise<ServicePlan> {
  const state = await readState(call.client, service.app)
  const kept = new Set(state?.secrets)
  // Domains are set by commands, and secrets only once.
  const file: EffectiveFile = {
    ...service.app,
    domains: state?.file.domains ?? [],
    env: Object.fromEntries(
      Object.entries(service.app.env).filter(([name]) => !(kept.has(name) && isSecret(service, name))),
    ),
  }
  const source = state && service.build && 'root' in file.build ? (await sendBuild(call, service)).source : undefined
  return { service, file, plan: planOf(file, state, { uploaded: source }), source }
}

const isSecret = ({ app }: StackService, name: string) => app.secrets?.includes(name) ?? false

export const hasChanges = ({ services }: StackPlan) => services.some(({ plan }) => !isEmpty(plan))

/** The plan as text. Values of secrets are not part of it. */
export function stackText(planned: StackPlan, prune: boolean): string {
  const { stack, services, left } = planned
  const removed = prune ? left : []
  const parts = services
    .filter(({ plan }) => !isEmpty(plan))
    .map(({ plan, file }) =>
      planText({ ...plan, changes: plan.changes.map(change => hidden(change, file.secrets ?? [])) }),
    )
  if (parts.length === 0 && removed.length === 0) parts.push(`No changes: the stack ${stack.name} matches the file.`)
  if (removed.length > 0) parts.push(['No longer in the file:', ...removed.map(name => `  - ${name}`)].join('\n'))
  else if (left.length > 0) parts.push(`No longer in the file, and kept without --prune: ${left.join(', ')}`)
  return [...parts, ...findingsText(stack.findings)].join('\n\n')
}

function hidden(change: Plan['changes'][number], secrets: readonly string[]): Plan['changes'][number] {
  return change.key.startsWith('env.') && secrets.includes(change.key.slice(4)) && change.to !== undefined
    ? { ...change, to: '(secret)' }
    : change
}

function findingsText(findings: readonly Finding[]): string[] {
  const lines = (level: Finding['level']) =>
    findings.filter(one => one.level === level).map(one => `  ${faultText(one)}`)
  const [cannot, differ] = [lines('unsupported'), lines('differs')]
  return [
    ...(differ.length > 0 ? [['Works in another way here:', ...differ].join('\n')] : []),
    ...(cannot.length > 0 ? [['Cannot work here:', ...cannot].join('\n')] : []),
  ]
}

/** @throws Error with each thing that cannot work, unless `--skip-unsupported` is given */
export function assertPossible(call: Call, { findings }: Stack): void {
  const faults = findings.filter(({ level }) => level === 'unsupported')
  if (faults.length === 0 || call.flags.skipUnsupported === true) return
  throw new Error(
    [
      ...faults.map(faultText),
      'Nothing was changed. Change the file, or leave these parts out with --skip-unsupported.',
    ].join('\n'),
  )
}
