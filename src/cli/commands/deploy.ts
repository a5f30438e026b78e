/** Commands for deploying an app from a folder, a repository or an image. */
import { statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { authorOf, type DeployAppRequest, type DeployResponse, versionOf } from '../../client/index.ts'
import { appFileName } from '../../appfile/name.ts'
import { appFlag, appOf, readLink } from '../folder.ts'
import { followDeployment } from '../follow.ts'
import { fileOf, isComposed, planOf } from '../launch-plan.ts'
import { sendFolder } from '../upload.ts'
import { deploymentDiff } from './deployment-diff.ts'
import { age, listing, status } from '../output.ts'
import { type Answer, type Call, type Flags, noun, oneOf, said, text, type Verb, verb, wholeNumber } from '../verb.ts'

export const deployCommands = (): Command[] => [
  ...[launch, deploy, restart, rollback].map(verb),
  noun('deployments', 'Deployments of an app', [
    list,
    deploymentDiff,
    ...(['cancel', 'pause', 'resume', 'stop', 'delete'] as const).map(change),
  ]),
]

const size: readonly (readonly [string, string])[] = [
  ['--memory <mib>', 'memory of each VM in MiB: 512, 1024, 2048 or 4096'],
  ['--vcpus <count>', 'vCPUs of each VM, 1 to 4'],
  ['--disk <mib>', 'size of the writable disk of each VM in MiB'],
  [
    '--hypervisor <name>',
    'hypervisor of the VMs: firecracker, cloud-hypervisor, gvisor or qemu; by default the best one available',
  ],
]

function requestOf(flags: Flags): DeployAppRequest {
  return {
    image: text(flags, 'image'),
    memory_mib: oneOf([512, 1024, 2048, 4096], wholeNumber(flags, 'memory'), 'memory'),
    vcpus: oneOf([1, 2, 3, 4], wholeNumber(flags, 'vcpus'), 'vcpus'),
    disk_mib: wholeNumber(flags, 'disk'),
    port: wholeNumber(flags, 'port'),
    hypervisor: oneOf(
      ['firecracker', 'cloud-hypervisor', 'gvisor', 'qemu', 'vm', 'fake'],
      text(flags, 'hypervisor'),
      'hypervisor',
    ),
  }
}

const deploy: Verb = {
  usage: 'deploy',
  says: 'Make the app match mote.toml, deploy it, and wait until it gets traffic; exits with 1 if that fails',
  options: [
    appFlag,
    ['-i, --image <image>', 'an OCI image; by default the app is built from its repository or folder'],
    ['--upload', 'upload this folder and build it; the default for apps created from a folder'],
    ['--port <port>', 'port that the app listens on'],
    ...size,
    ['--plan', 'show what mote.toml would change, and change nothing'],
    ['-y, --yes', 'apply the plan without asking'],
    ['--force', 'deploy a new version even if nothing has changed'],
    ['--no-wait', 'return without waiting for the result'],
    ['--dry-run', 'show the placement without deploying'],
  ],
  example: 'mote deploy --plan\nmote deploy --app web --image docker.io/library/nginx:1.27 --port 80',
  async run(call) {
    const app_name = await appOf(call)
    const { fileOfFolder, requiredFile } = await import('../app-file.ts')
    const file = await (call.flags.plan === true ? requiredFile : fileOfFolder)(call.flags)
    if (file && call.flags.dryRun !== true) {
      const { deployFile, withFlags } = await import('../deploy-file.ts')
      const replaced = requestOf(call.flags)
      return deployFile(call, withFlags(file, replaced, call.flags.upload === true), replaced.hypervisor, answer =>
        followed(call, app_name, answer),
      )
    }
    const source = (await isUpload(call)) ? (await sendFolder(call, app_name, process.cwd())).source : undefined
    const body = { ...requestOf(call.flags), source, dry_run: call.flags.dryRun === true ? true : undefined }
    const answer = await call.client.deployApp({ app_name, body })
    if (answer.dry_run) return said(answer, explanation(answer))
    return followed(call, app_name, answer)
  },
}

const restart: Verb = {
  usage: 'restart',
  says: 'Replace the VMs of the app by new ones with the same image and the current variables, without downtime',
  options: [appFlag, ['--no-wait', 'return without waiting for the result']],
  example: 'mote restart --app web',
  async run(call) {
    const app_name = await appOf(call)
    const { active_deployment_id: job_id } = await call.client.getApp({ app_name })
    if (!job_id) throw new Error(`${app_name} has no active deployment. Deploy it: mote deploy --app ${app_name}`)
    const { image, vcpus, memory_mib } = await call.client.getDeployment({ app_name, job_id })
    const size = {
      vcpus: oneOf([1, 2, 3, 4], vcpus, 'vcpus'),
      memory_mib: oneOf([512, 1024, 2048, 4096], memory_mib, 'memory'),
    }
    return followed(call, app_name, await call.client.deployApp({ app_name, body: { image, ...size } }))
  },
}

const followed = async (call: Call, app: string, answer: DeployResponse): Promise<Answer> =>
  call.flags.wait === false
    ? said(answer, `Deployment ${answer.job_id} is ${answer.status}. Follow it: mote status --app ${app}`)
    : untilItServes(call, app, answer.job_id)

/**
 * Returns whether to upload the folder: with `--upload`, or if the app was created from this folder and no flag names
 * another source.
 */
async function isUpload({ flags }: Call): Promise<boolean> {
  if (flags.upload === true) return true
  if (flags.image !== undefined) return false
  const link = await readLink()
  return link?.source === 'folder' && (flags.app === undefined || flags.app === link.app)
}

function explanation({ dry_run: plan }: DeployResponse): string {
  const rejected = (plan?.rejected ?? []).map(({ host_id, reason }) => `  not ${host_id}: ${reason}`)
  return [`It would go to ${plan?.host_id ?? 'no host'}.`, ...rejected, plan?.plan ?? ''].filter(Boolean).join('\n')
}

async function untilItServes(call: Call, app: string, jobId: string, leaving?: string): Promise<Answer> {
  const { live } = await followDeployment(call, app, jobId, `Deploying ${app}`, { leaving })
  const { url } = await call.client.getApp({ app_name: app })
  return said(live, url ? `${app} serves at ${url}` : `${app} runs.`)
}

const launch: Verb = {
  usage: 'launch [folder]',
  says: 'Create an app from a folder and deploy it, after three questions',
  options: [
    ['--name <name>', 'name of the app'],
    ['--upload', 'upload the folder and build it; the default for a folder that can be built'],
    ['--git-url <url>', 'build from this git repository instead of the folder'],
    ['-i, --image <image>', 'deploy this image instead of a folder'],
    ['--sample', 'deploy the sample app that comes with Mote; needs no folder and no registry'],
    ['--port <port>', 'port that the app listens on'],
    ...size,
    ['-y, --yes', 'take the defaults instead of asking'],
    ['--no-wait', 'return without waiting for the result'],
  ],
  example:
    'mote launch\nmote launch --sample\nmote launch --upload --name shop --port 3000\nmote launch --name web --image docker.io/library/nginx:1.27 --port 80',
  async run(call) {
    if (call.flags.sample === true) {
      const { launchSample } = await import('../sample.ts')
      return launchSample(call, requestOf(call.flags), (app, answer) => followed(call, app, answer))
    }
    const dir = resolve(call.args[0] || '.')
    if (!statSync(dir, { throwIfNoEntry: false })?.isDirectory())
      throw new Error(`${dir} is no folder. Run mote launch in the folder of an app, or give its path.`)
    const linked = await readLink(dir)
    if (linked)
      throw new Error(
        `This folder already belongs to the app ${linked.app} (${appFileName}). Deploy it: mote deploy. To launch another app from here, remove ${appFileName} (or mote.json) first.`,
      )
    if (await isComposed(call, dir)) {
      const { stackSource } = await import('../compose-files.ts')
      const { upStack } = await import('../compose-up.ts')
      return upStack(call, stackSource(call.flags))
    }
    const plan = await planOf(call, dir)
    const { name, image, gitUrl, port, upload } = plan
    const { newFileText } = await import('../../appfile/write.ts')
    const file = newFileText(fileOf(call, plan, requestOf(call.flags)), call.url)
    if (plan.procfile) return launchFile(call, dir, file)
    await call.client.createApp({ body: { name, git_url: gitUrl, port } })
    await writeFile(join(dir, appFileName), file)
    const source = upload ? (await sendFolder(call, name, dir)).source : undefined
    const body = { ...requestOf(call.flags), image, source, port }
    const answer = await call.client.deployApp({ app_name: name, body })
    return call.flags.wait === false
      ? said(answer, `Created the app ${name}. Its deployment is ${answer.status}.`)
      : untilItServes(call, name, answer.job_id)
  },
}

/**
 * Deploys a folder whose Procfile has workers or a release command.
 * @param file content of the `mote.toml` to create
 */
async function launchFile(call: Call, dir: string, file: string): Promise<Answer> {
  if (call.flags.wait === false) throw new Error('Leave out --no-wait: the workers start once the app serves.')
  await writeFile(join(dir, appFileName), file)
  process.chdir(dir)
  const { requiredFile } = await import('../app-file.ts')
  const { deployFile } = await import('../deploy-file.ts')
  const effective = await requiredFile({})
  const agreed = { ...call, flags: { ...call.flags, yes: true } }
  return deployFile(agreed, effective, requestOf(call.flags).hypervisor, answer =>
    followed(call, effective.app, answer),
  )
}

const list: Verb = {
  usage: 'list',
  says: 'List the deployments of the app, newest first',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const app_name = await appOf(call)
    const all = await call.client.listDeployments({ app_name })
    const rows = all.map(one => [
      ...[one.job_id, status(one.status), versionOf(one), authorOf(one)],
      ...[one.duration_ms === null ? '' : `${(one.duration_ms / 1000).toFixed(1)} s`, age(one.created_at)],
    ])
    return said(all, listing(['DEPLOYMENT', 'STATUS', 'VERSION', 'BY', 'TOOK', 'AGE'], rows, 'No deployments yet.'))
  },
}

const rollback: Verb = {
  usage: 'rollback [deployment]',
  says: 'Roll the app back to an earlier deployment; by default the previous one',
  options: [appFlag],
  example: 'mote rollback --app web',
  async run(call) {
    const app_name = await appOf(call)
    const all = await call.client.listDeployments({ app_name })
    const { active_deployment_id: active } = await call.client.getApp({ app_name })
    const before = all.slice(all.findIndex(({ id }) => id === active) + 1)
    const target = call.args[0]
      ? all.find(({ id, job_id }) => id === call.args[0] || job_id === call.args[0])
      : before.find(one => !['failed', 'cancelled', 'deleted'].includes(one.status))
    if (!target)
      throw new Error(
        call.args[0] ? `${app_name} has no deployment ${call.args[0]}.` : 'No earlier deployment to roll back to.',
      )
    await call.client.activateDeployment({ app_name, deployment_id: target.id })
    return untilItServes(call, app_name, target.job_id, target.status)
  },
}

const changes = {
  cancel: { says: 'Cancel a deployment that is not active yet', done: 'is being cancelled', by: 'cancelDeployment' },
  pause: {
    says: 'Pause the VMs of a deployment and keep their memory',
    done: 'is being paused',
    by: 'pauseDeployment',
  },
  resume: { says: 'Resume the paused VMs of a deployment', done: 'is being resumed', by: 'resumeDeployment' },
  stop: {
    says: 'Stop the VMs of a deployment; if it is active, the app then serves no requests',
    done: 'is being stopped',
    by: 'stopDeployment',
  },
  delete: { says: 'Stop a deployment and delete its record', done: 'is being deleted', by: 'deleteDeployment' },
} as const

const change = (name: keyof typeof changes): Verb => ({
  usage: `${name} <deployment>`,
  says: changes[name].says,
  options: [appFlag],
  async run(call) {
    const [job_id = ''] = call.args
    const answer = await call.client[changes[name].by]({ app_name: await appOf(call), job_id })
    return said(answer, `Deployment ${job_id} ${changes[name].done}.`)
  },
})
