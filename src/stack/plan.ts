/** Compares a stack with the installation. */
import type { Stack, StackService } from '../compose/stack.ts'
import { isEmpty, type Plan, planOf } from '../appfile/plan.ts'
import type { EffectiveFile } from '../appfile/effective.ts'
import { type App, type Client, everyItem } from '../client/index.ts'
import { readState } from './app-state.ts'
import type { Context } from './context.ts'
import { type Addresses, readStack, type StackSource } from './source.ts'

export interface ServicePlan {
  readonly service: StackService
  readonly file: EffectiveFile
  readonly plan: Plan
  /** Id of the uploaded folder, if it was uploaded to be compared; otherwise undefined. */
  readonly source: string | undefined
}

export interface StackPlan {
  readonly stack: Stack
  readonly services: readonly ServicePlan[]
  /** Names of the stack's apps that its files do not contain any more. */
  readonly left: readonly string[]
}

const unknownHost = 'is-known-once-the-app-exists.invalid'

export const appsOf = (client: Client): Promise<App[]> =>
  Array.fromAsync(everyItem(query => client.listApps({ query })))

/**
 * Reads the files of a stack. Reads them twice, because variables may contain the addresses of apps, and these depend
 * on the names of services.
 */
export async function currentStack(context: Context, source: StackSource, apps: readonly App[]): Promise<Stack> {
  const names = await readStack(source)
  return readStack(source, addressesOf(context, names, apps))
}

function addressesOf(context: Context, { services }: Stack, apps: readonly App[]): Addresses {
  return new Map(
    services.map(({ name, app }) => {
      const host = apps.find(one => one.name === app.app)?.hostname ?? unknownHost
      return [name, { app: app.app, host, url: urlOf(context.url, host) }]
    }),
  )
}

/**
 * Returns the address that `mote open` shows. If the API has port 7070, it belongs to `mote up`, whose gateway has port
 * 7080 and no certificate.
 */
function urlOf(api: string, host: string): string {
  const { protocol, port } = new URL(api)
  return `${protocol}//${host}${port === '7070' ? ':7080' : ''}`
}

/**
 * Compares all services of a stack with the installation. @throws Error if an app has the name of a service but does
 * not belong to the stack
 */
export async function planStack(context: Context, source: StackSource): Promise<StackPlan> {
  const apps = await appsOf(context.client)
  const stack = await currentStack(context, source, apps)
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
  for (const service of stack.services) services.push(await planService(context, service))
  const names = new Set(stack.services.map(({ app }) => app.app))
  return {
    stack,
    services,
    left: apps.filter(app => app.stack === stack.name && !names.has(app.name)).map(app => app.name),
  }
}

const changedKind = (name: string, { kind, name: app }: App) =>
  `The service ${name} ${kind === 'worker' ? 'now publishes an HTTP port' : 'no longer publishes an HTTP port'}, which an app cannot change. Delete the app first: mote apps delete ${app}`

export async function planService(context: Context, service: StackService): Promise<ServicePlan> {
  const state = await readState(context.client, service.app, service.app.processes.web.restart !== undefined)
  const kept = new Set(state?.secrets)
  // Keep existing domains, because they are set by commands and not in the file. Keep existing secrets, because they
  // are set only once.
  const file: EffectiveFile = {
    ...service.app,
    domains: state?.file.domains ?? [],
    // A completed task has detached its volumes for the next service, which is not a change of the file.
    ...(service.isTask && state?.isDeployed ? { volumes: state.file.volumes } : {}),
    env: Object.fromEntries(
      Object.entries(service.app.env).filter(([name]) => !(kept.has(name) && isSecret(service, name))),
    ),
  }
  const source = state && service.build && 'root' in file.build ? await context.upload(service) : undefined
  const plan = planOf(file, state, { uploaded: source })
  if (!service.isTask || isEmpty(plan)) return { service, file, plan, source }
  const again = { ...file, volumes: service.app.volumes }
  return { service, file: again, plan: planOf(again, state, { uploaded: source }), source }
}

const isSecret = ({ app }: StackService, name: string) => app.secrets?.includes(name) ?? false

export const hasChanges = ({ services }: StackPlan) => services.some(({ plan }) => !isEmpty(plan))
