/**
 * Deploys the app of a `mote.toml`: shows the plan, asks for confirmation, applies the plan, and deploys a new version
 * if one is needed.
 */
import { join } from 'node:path'
import { type EffectiveFile, type WebProcess, workerApp } from '../appfile/effective.ts'
import { isEmpty, type Plan, planOf, planText, removes } from '../appfile/plan.ts'
import type { DeployAppRequest, DeployResponse } from '../client/index.ts'
import { readState } from '../stack/app-state.ts'
import { agree } from './ask.ts'
import { converge, convergeWorkers } from '../stack/converge.ts'
import { followDeployment } from './follow.ts'
import { stackContext } from './stack-context.ts'
import { sendFolder } from './upload.ts'
import { type Answer, type Call, type Flags, said } from './verb.ts'

/** Settings from flags that replace the file's keys for this deployment only. */
export type Replaced = Pick<DeployAppRequest, 'image' | 'memory_mib' | 'vcpus' | 'disk_mib' | 'port' | 'hypervisor'>

/** Returns the contents of `mote.toml`, with the keys that flags replace. */
export function withFlags(file: EffectiveFile, { image, ...given }: Replaced, isUpload: boolean): EffectiveFile {
  const { web } = file.processes
  const sizes = {
    port: given.port ?? web.port,
    vcpus: (given.vcpus ?? web.vcpus) as WebProcess['vcpus'],
    memory_mib: (given.memory_mib ?? web.memory_mib) as WebProcess['memory_mib'],
    disk_mib: given.disk_mib ?? web.disk_mib,
  }
  const folder = 'root' in file.build ? file.build : { root: '.' }
  const build = image ? { image } : isUpload ? folder : file.build
  return { ...file, build, processes: { web: { ...web, ...sizes } } }
}

interface Planned {
  readonly plan: Plan
  /** Id of the uploaded folder; undefined if the app does not exist yet, or if it is not built from a folder. */
  readonly source: string | undefined
}

/** Compares the file with the installation. Uploads the folder for this, because only the server assigns source ids. */
export async function planFile(call: Call, file: EffectiveFile): Promise<Planned> {
  const state = await readState(call.client, file)
  const source = state ? await sourceOf(call, file) : undefined
  return { plan: planOf(file, state, { uploaded: source, asked: askedBy(call.flags) }), source }
}

/**
 * Returns the flag that requests a new version even without changes; undefined if there is none. `--image` does,
 * because the image behind a name can change.
 */
const askedBy = ({ force, image }: Flags): string | undefined =>
  force === true ? '--force' : image === undefined ? undefined : '--image'

/**
 * Uploads the folder that the app is built from.
 * @returns the id of the uploaded source; undefined if the app is not built from a folder
 */
async function sourceOf(call: Call, { app, build }: EffectiveFile): Promise<string | undefined> {
  return 'root' in build ? (await sendFolder(call, app, join(process.cwd(), build.root))).source : undefined
}

/**
 * Shows the plan, asks for confirmation and applies it.
 * @param follow waits until the deployment serves
 * @throws Error if the plan is refused, or a step fails
 */
export async function deployFile(
  call: Call,
  file: EffectiveFile,
  hypervisor: Replaced['hypervisor'],
  follow: (answer: DeployResponse) => Promise<Answer>,
): Promise<Answer> {
  const { plan, source } = await planFile(call, file)
  if (call.flags.plan === true || isEmpty(plan)) return said(plan, planText(plan))
  if (call.flags.wait === false && plan.workers.length > 0)
    throw new Error('Leave out --no-wait: the workers get the image of the app, once its new version serves.')
  call.terminal.line(planText(plan))
  await consent(call, plan)
  await converge(stackContext(call), file, plan)
  const answer = plan.deploys.length > 0 ? await deployWeb(call, file, source, hypervisor, follow) : undefined
  await convergeWorkers(stackContext(call), file, plan)
  for (const name of plan.workers) await deployWorker(call, file, name)
  return answer ?? said(plan, `${file.app} matches the file. No new version was needed.`)
}

async function deployWeb(
  call: Call,
  file: EffectiveFile,
  source: string | undefined,
  hypervisor: Replaced['hypervisor'],
  follow: (answer: DeployResponse) => Promise<Answer>,
): Promise<Answer> {
  const body = {
    ...('image' in file.build ? { image: file.build.image } : {}),
    source: source ?? (await sourceOf(call, file)),
    hypervisor,
    port: file.processes.web.port,
    vcpus: file.processes.web.vcpus,
    memory_mib: file.processes.web.memory_mib,
    disk_mib: file.processes.web.disk_mib,
  }
  return follow(await call.client.deployApp({ app_name: file.app, body }))
}

/**
 * Deploys a worker with the image that the app runs now.
 * @throws Error if the worker does not start; the app's web process is not affected
 */
async function deployWorker(call: Call, { app, workers }: EffectiveFile, name: string): Promise<void> {
  const { client } = call
  const worker = workers[name]
  const { active_deployment_id: id } = await client.getApp({ app_name: app })
  if (!worker || !id) return
  const { image } = await client.getDeployment({ app_name: app, job_id: id })
  const { vcpus, memory_mib, disk_mib } = worker
  const app_name = workerApp(app, name)
  const { job_id } = await client.deployApp({ app_name, body: { image, vcpus, memory_mib, disk_mib } })
  await followDeployment(call, app_name, job_id, `Deploying ${app_name}`)
}

/** Asks for confirmation on a terminal if settings change. Without one, a plan that removes something needs `--yes`. */
async function consent({ flags }: Call, plan: Plan): Promise<void> {
  if (flags.yes === true || plan.changes.length === 0) return
  if (process.stdin.isTTY) {
    if (await agree('Apply this plan?')) return
    throw new Error('Nothing was changed.')
  }
  if (removes(plan))
    throw new Error(
      'The plan removes something (lines with "-"). Apply it with --yes, or keep it: mote config pull writes it into the file.',
    )
}
