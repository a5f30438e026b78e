/** Runs one build, from fetching the source to the finished image. */
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Bus } from '../../bus/bus.ts'
import type { BuildPut, VmSpec } from '../../contract/agent.ts'
import { run } from '../../lib/exec.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Driver } from '../hypervisor/driver.ts'
import type { RegistryConfig } from '../base/registry-config.ts'
import { signedIn, type UsableRegistry } from '../image/access.ts'
import { parseImage } from '../image/reference.ts'
import type { AskBuildLogin } from '../image/logins.ts'
import type { OneWay } from '../image/oneway.ts'
import type { VmLog } from '../logs/vm-log.ts'
import { composeImage } from './compose.ts'
import { failureLine, searchedLines } from './failure-line.ts'
import { BuildFault } from './fault.ts'
import { type Commit, fetchSource, type SourceTree } from './git.ts'
import { keepBuilt, pushBuilt } from './retention.ts'
import { makeDisk, outputLimits, readLayer, readLayout } from './output.ts'
import { type Bases, basesOf, fetchBases } from './private-bases.ts'
import { putBehind } from './more-archives.ts'
import { planProject } from './plan/index.ts'
import { describePlan } from './plan/describe.ts'
import { timed, watchSilence } from './progress.ts'
import { inputsEnv, recipeOf } from './recipe.ts'
import type { Recipe } from './recipe-parts.ts'
import { readTree } from './tree.ts'
import { buildTrust } from './trust.ts'
import { toolchainDisk } from './archives/disk.ts'
import { ensureToolImage, type ToolImageDirs, toolReference } from './tool-images.ts'
import { fetchUpload, partsOf } from './upload.ts'
import { openWorker, type Unprivileged, type Worker } from '../worker/worker.ts'
import { runInVm } from './vm.ts'

export interface JobDeps extends ToolImageDirs {
  readonly bus: Bus
  readonly hostId: string
  readonly driver: Driver
  readonly bootSlots: Semaphore
  readonly registries: readonly RegistryConfig[]
  readonly unprivileged: () => Promise<Unprivileged>
  readonly askBuildLogin: AskBuildLogin
  readonly oneWay: () => Promise<OneWay>
  /**
   * File with certificate authorities that builds trust, see `buildTrust`; null: those that the host's administrator
   * added.
   */
  readonly buildCa: string | null
  /** Limit on the size of the host's cache of toolchain archives; see `ToolchainDeps`. */
  readonly toolchainMib: number
  /** Directory with the build cache of each app. */
  readonly cachesDir: string
}

export interface Job {
  readonly buildId: string
  readonly spec: BuildPut['spec']
  /** An empty working directory; the caller removes it. */
  readonly work: string
  /** Directory of the builder VM. After a crash, the agent looks there for leftover processes. */
  readonly vmDir: string
  readonly log: VmLog
  readonly onCommit: (commit: Commit) => void
  readonly onState: (state: 'fetching' | 'building' | 'pushing') => void
}

/** Limit on the unpacked source. Larger files belong in a volume. */
const maxSourceBytes = 1 << 30
const cacheMib = 10 * 1024
/** Limit on private base images, which the builder unpacks on its own disk of 8 GiB. */
const maxBasesBytes = 2 * 2 ** 30

/**
 * Builds the app's image and stores or pushes it.
 * @returns the image reference, pinned by digest
 * @throws BuildFault with a message for the app's owner; when aborted: the signal's reason
 */
export async function build(deps: JobDeps, job: Job, signal: AbortSignal): Promise<string> {
  if (deps.driver.name === 'fake') throw new BuildFault('This host only simulates VMs: it cannot build.')
  const { spec, work, log } = job
  const say = (line: string) => log.say(line)
  // The certificates of the operator are read first: if their setting is wrong, the build fails before it fetches
  // anything.
  const trust = await buildTrust(deps.buildCa)
  job.onState('fetching')
  const { recipe, bases, made } = await timed(say, 'fetching the source', () => prepare(deps, job, signal))
  job.onState('building')
  const toolchains = await toolchainDisk(
    { ...deps, authorities: trust['MOTE_CA'] ?? '' },
    { wanted: recipe.toolchain ?? [], work, say },
    signal,
  )
  await timed(say, 'building', () => inVm(deps, job, { recipe, trust, bases, toolchains }, signal))
  job.onState('pushing')
  const layout = await timed(say, 'making the image', () => imageOf(deps, { recipe, made }, work, signal, say))
  const image =
    spec.repository === null
      ? await keepBuilt(layout, deps.imageDir, spec.appId)
      : await pushBuilt(layout, spec.repository, await registriesTo(deps, job, spec.repository, signal), signal)
  say(`built ${image}`)
  return image
}

/** Returns the registries, with the project's credential for the push. */
async function registriesTo(
  { askBuildLogin, registries }: JobDeps,
  { buildId, spec }: Job,
  repository: string,
  signal: AbortSignal,
): Promise<readonly UsableRegistry[]> {
  const reference = parseImage(repository)
  if (!spec.signIn || reference.kind !== 'registry') return registries
  return signedIn(registries, reference, await askBuildLogin(buildId, repository, signal))
}

/** Fetches the source and private base images, plans the build, and creates the builder's disks. */
async function prepare(deps: JobDeps, job: Job, signal: AbortSignal): Promise<Prepared> {
  const { spec, work, log } = job
  const dir = join(work, 'git')
  await mkdir(dir)
  using worker = await openWorker(await deps.unprivileged(), dir, { network: 'host', signal })
  const source = await (spec.source.upload === undefined
    ? fetchCommit(job, worker, signal)
    : fetchSent(deps, job, signal))
  const plan = planProject(await readTree(source), '', spec.settings?.dockerfile)
  for (const line of describePlan(plan)) log.say(line)
  const plainHttp = deps.registries.flatMap(registry => (registry.plainHttp ? [registry.host] : []))
  const recipe = recipeOf(plan, plainHttp)
  const images = plan.provider === 'dockerfile' ? await basesOf(source, plan.dockerfile, spec.settings?.args ?? {}) : []
  const bases = await fetchBases(
    { ...deps, maxBytes: maxBasesBytes },
    { buildId: job.buildId, images, work, say: line => log.say(line) },
    signal,
  )
  await makeDisks(deps, job, source)
  await rm(dir, { recursive: true, force: true })
  return { recipe, bases, made: source.made }
}

async function fetchCommit({ spec, log, onCommit }: Job, worker: Worker, signal: AbortSignal): Promise<SourceTree> {
  const { url, branch } = spec.source
  log.say(`fetching ${withoutUser(url)}${branch ? ` (${branch})` : ''}`)
  const limits = { maxBytes: maxSourceBytes, timeoutMs: spec.timeLimitMs, signal }
  const repository = await fetchSource(spec.source, worker, limits)
  const { commit } = repository
  onCommit(commit)
  log.say(`commit ${commit.hash.slice(0, 12)} of ${commit.branch}: ${commit.message.split('\n')[0]}`)
  return repository
}

function fetchSent({ bus, hostId }: JobDeps, job: Job, signal: AbortSignal): Promise<SourceTree> {
  const { spec, work, log, buildId } = job
  const digest = spec.source.upload ?? ''
  log.say(`fetching the uploaded source, sha256:${digest.slice(0, 12)}`)
  const read = partsOf(bus, hostId, buildId, signal)
  return fetchUpload(read, digest, join(work, 'sent.tar'), { maxBytes: maxSourceBytes, signal })
}

const disksOf = (work: string) => ({ source: join(work, 'source.tar'), output: join(work, 'output.img') })

async function makeDisks(deps: JobDeps, { spec, work }: Job, source: SourceTree): Promise<void> {
  const disks = disksOf(work)
  await source.archive(disks.source)
  const { size } = await stat(disks.source)
  if (size > spec.diskMib * 2 ** 19)
    throw new BuildFault(
      `The source has ${Math.ceil(size / 2 ** 20)} MiB; at most half of the builder's disk is allowed.`,
    )
  await makeDisk(disks.output, spec.diskMib)
  await ensureCache(cacheOf(deps, spec.appId))
}

/**
 * Returns the file of an app's cache disk. A guest with access to the raw disk could forge the file system, so the host
 * never mounts such a disk: drivers that mount the cache use a separate file.
 */
const cacheOf = ({ cachesDir, driver }: JobDeps, appId: string) =>
  join(cachesDir, driver.mountsDrives ? `${appId}.mounted.img` : `${appId}.img`)

/** Creates the app's cache disk if there is none. The file is sparse. */
async function ensureCache(file: string): Promise<void> {
  if (existsSync(file)) return
  await mkdir(join(file, '..'), { recursive: true, mode: 0o700 })
  await makeDisk(`${file}.partial`, cacheMib)
  await run('mke2fs', ['-q', '-F', '-t', 'ext4', '-m', '0', '-E', 'nodiscard,lazy_itable_init=1', `${file}.partial`])
  await rename(`${file}.partial`, file)
}

interface Prepared {
  readonly recipe: Recipe
  /** Private images that the Dockerfile starts from; undefined if there are none. */
  readonly bases: Bases | undefined
  /** Time of the source, which becomes the creation time of the image. */
  readonly made: Date
}

interface Planned extends Omit<Prepared, 'made'> {
  /** Environment of the builder with proxy and certificate authorities; see `buildTrust`. */
  readonly trust: Readonly<Record<string, string>>
  /** Path of the tar file with the toolchain; see `toolchainDisk`. */
  readonly toolchains: string | undefined
}

async function inVm(deps: JobDeps, job: Job, planned: Planned, signal: AbortSignal): Promise<void> {
  const { recipe, trust, bases, toolchains } = planned
  const { spec, work, log, buildId, vmDir } = job
  const say = (line: string) => log.say(line)
  using silence = watchSilence(say)
  await ensureToolImage(deps, recipe.builder, say)
  const disks = disksOf(work)
  const behind = async (archive: string) => String(await putBehind(disks.source, archive, signal))
  const given = {
    ...trust,
    ...(bases ? { BASES: bases.names.join(' '), BASES_AT: await behind(bases.file) } : {}),
    ...(toolchains === undefined ? {} : { TOOLCHAINS_AT: await behind(toolchains) }),
  }
  const code = await runInVm(
    deps,
    {
      vmId: buildId,
      dir: vmDir,
      spec: vmSpec(job, recipe, given),
      say,
      drives: [
        { serial: 'source', file: disks.source, readOnly: true },
        { serial: 'output', file: disks.output, readOnly: false },
        { serial: 'cache', file: cacheOf(deps, spec.appId), readOnly: false, fileSystem: 'ext4' },
      ],
      onFrames: (frames, ack) => {
        silence.heard()
        log.frames(1, frames, ack)
      },
    },
    signal,
  )
  if (code === 0) return
  const lines = await log.read({ tail: searchedLines, afterUs: 0 })
  const reason = failureLine(lines.map(({ line }) => line))
  throw new BuildFault(
    `The build ended with code ${code}${reason === undefined ? '; its log is empty.' : `: ${reason}`}`,
  )
}

function vmSpec({ spec }: Job, recipe: Recipe, trust: Readonly<Record<string, string>>): VmSpec {
  const { projectId, appId, deploymentId, hypervisor, vcpus, memoryMib, diskMib } = spec
  return {
    projectId,
    appId,
    deploymentId,
    hypervisor,
    vcpus,
    memoryMib,
    diskMib,
    hostname: 'builder',
    image: toolReference(recipe.builder),
    command: ['/bin/sh', '-c', recipe.script],
    env: { ...trust, ...recipe.env, ...inputsEnv(spec.settings ?? { args: {}, secrets: {} }) },
    port: 1,
    healthCheckPath: null,
    ipv6Address: '',
    maxRestarts: 0,
    restarts: 0,
    balloonTargetMib: null,
    disks: [],
  }
}

async function imageOf(
  deps: JobDeps,
  { recipe: { output }, made }: Pick<Prepared, 'recipe' | 'made'>,
  work: string,
  signal: AbortSignal,
  say: (line: string) => void,
): Promise<string> {
  const layout = join(work, 'image')
  const disk = disksOf(work).output
  const limits = { ...outputLimits, signal }
  if (output.kind === 'layout') {
    await readLayout(disk, layout, limits)
    return layout
  }
  const layer = join(work, 'layer.tar')
  await readLayer(disk, layer, limits)
  await composeImage(await ensureToolImage(deps, output.base, say), layer, output.config, layout, made)
  return layout
}

function withoutUser(text: string): string {
  const url = URL.parse(text)
  return url ? `${url.protocol}//${url.host}${url.pathname}` : ''
}
