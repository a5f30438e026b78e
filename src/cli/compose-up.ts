/** Makes the apps of a stack match its files, and deletes stacks. */
import type { Stack } from '../compose/stack.ts'
import { everyItem } from '../client/index.ts'
import { appsOf, hasChanges, planStack, type StackPlan } from '../stack/plan.ts'
import type { StackSource } from '../stack/source.ts'
import { applyStack } from '../stack/up.ts'
import { agree, confirmByName } from './ask.ts'
import { assertPossible, stackText } from './compose-state.ts'
import { deleteApp, deleteVolume } from './removal.ts'
import { stackContext } from './stack-context.ts'
import { type Answer, type Call, said } from './verb.ts'

/**
 * Plans the stack, asks for confirmation and applies the plan.
 * @throws Error if the files have unsupported parts, or a step fails
 */
export async function upStack(call: Call, source: StackSource): Promise<Answer> {
  const planned = await planStack(stackContext(call), source)
  assertPossible(call, planned.stack)
  const prune = call.flags.prune === true
  const shown = stackText(planned, prune)
  const removed = prune ? planned.left : []
  if (!hasChanges(planned) && removed.length === 0) return said(jsonOf(planned), shown)
  call.terminal.line(shown)
  await consent(call, planned, removed)
  const stack = await applyStack(stackContext(call), source, planned)
  for (const app_name of removed) await deleteApp(call, app_name)
  return said(jsonOf(planned), await readyText(call, stack))
}

export const jsonOf = ({ stack, services, left }: StackPlan) => ({
  stack: stack.name,
  services: services.map(({ service, plan, file }) => ({
    service: service.name,
    app: plan.app,
    kind: file.kind,
    changes: plan.changes.map(({ key, kind }) => ({ key, kind })),
    deploys: plan.deploys,
  })),
  left,
  findings: stack.findings,
})

/** Asks for confirmation on a terminal. Without one, a plan that removes something needs `--yes`. */
async function consent(call: Call, planned: StackPlan, removed: readonly string[]): Promise<void> {
  if (call.flags.yes === true) return
  if (process.stdin.isTTY) {
    if (await agree('Apply this plan?')) return
    throw new Error('Nothing was changed.')
  }
  const removes = planned.services.some(({ plan }) =>
    plan.changes.some(({ kind, key }) => kind === 'remove' && /^(env|volumes)\./.test(key)),
  )
  if (removes || removed.length > 0)
    throw new Error('The plan removes something (lines with "-"). Nothing was changed: apply it with --yes.')
}

async function readyText(call: Call, { name, services }: Stack): Promise<string> {
  const apps = await appsOf(call.client)
  const lines = services.map(({ app, isTask }) => {
    const url = apps.find(one => one.name === app.app)?.url
    return `  ${app.app}  ${url ? `serves at ${url}` : isTask ? 'has ended' : 'runs'}`
  })
  return [`The stack ${name} runs:`, ...lines].join('\n')
}

/**
 * Deletes the apps of the stack, and with `--volumes` its volumes.
 * @param volumeNames volumes that the stack's compose files name
 */
export async function downStack(call: Call, name: string, volumeNames: readonly string[]): Promise<Answer> {
  const apps = (await appsOf(call.client)).filter(app => app.stack === name).map(app => app.name)
  const all = await Array.fromAsync(everyItem(query => call.client.listVolumes({ query })))
  // A volume that no compose file names belongs to the stack if its name begins with the stack's and an app of the
  // stack has it attached.
  const isOwn = (volume: (typeof all)[number]) =>
    volumeNames.includes(volume.name) ||
    (volume.name.startsWith(`${name}-`) && volume.attachments.some(one => apps.includes(one.app_name ?? '')))
  const volumes = call.flags.volumes === true ? all.filter(isOwn) : []
  if (apps.length === 0 && volumes.length === 0)
    return said({ stack: name, apps, volumes: [] }, `The stack ${name} has no apps in this project.`)
  call.terminal.line(
    `Apps: ${apps.join(', ') || 'none'}\nVolumes: ${volumes.map(one => one.name).join(', ') || 'none; they are kept'}`,
  )
  await confirmByName('the stack', name, call.flags.yes === true)
  for (const app_name of apps) await deleteApp(call, app_name)
  for (const { id, name: volume } of volumes)
    await call.terminal.step(`Deleting the volume ${volume}`, () => deleteVolume(call, id))
  const deleted = volumes.map(one => one.name)
  return said({ stack: name, apps, volumes: deleted }, `Deleted ${[...apps, ...deleted].join(', ')}.`)
}
