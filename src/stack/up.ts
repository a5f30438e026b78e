/** Creates and changes the apps of a stack until they match its files. */
import type { Stack } from '../compose/stack.ts'
import { isEmpty } from '../appfile/plan.ts'
import type { Context } from './context.ts'
import { converge, detach, newApp } from './converge.ts'
import { appsOf, currentStack, planService, type ServicePlan, type StackPlan } from './plan.ts'
import type { StackSource } from './source.ts'

/**
 * Creates and deploys the planned apps, service by service. May be repeated after a failure.
 * @throws Error if a step fails
 */
export async function applyStack(context: Context, source: StackSource, planned: StackPlan): Promise<Stack> {
  const stack = await createApps(context, source, planned)
  for (const service of stack.services) await deployService(context, await planService(context, service), source.again)
  return stack
}

/**
 * Creates all new apps before the first deployment, because a variable of one app may contain the address of another.
 */
async function createApps(context: Context, source: StackSource, { services, stack }: StackPlan): Promise<Stack> {
  const created = services.filter(({ plan }) =>
    plan.changes.some(({ kind, key }) => kind === 'create' && key === 'app'),
  )
  for (const { file } of created)
    await context.step(`Creating ${file.app}`, () => context.client.createApp({ body: newApp(file) }))
  return created.length === 0 ? stack : currentStack(context, source, await appsOf(context.client))
}

/** Deploys a service and waits until it is healthy, because services that depend on it are deployed next. */
async function deployService(
  context: Context,
  { service, file, plan, source }: ServicePlan,
  again: string,
): Promise<void> {
  if (isEmpty(plan)) return
  await converge(context, file, plan, again)
  if (plan.deploys.length === 0) return
  const { port, vcpus, memory_mib, disk_mib } = file.processes.web
  const uploaded = 'root' in file.build ? (source ?? (await context.upload(service))) : undefined
  const image = 'image' in file.build ? file.build.image : undefined
  const body = { image, source: uploaded, port, vcpus, memory_mib, disk_mib }
  const { job_id } = await context.client.deployApp({ app_name: file.app, body })
  const mayEnd = file.processes.web.restart !== undefined
  await context.follow(file.app, job_id, service.isTask ? 'end' : mayEnd ? 'either' : 'serve')
  if (!service.isTask) return
  // Detach the volumes of a completed task, because the next service may need them.
  for (const { name } of file.volumes) await detach(context, file.app, name)
}
