/**
 * The source's side of a live migration with volumes. QEMU mirrors the volumes and the scratch disk to the target (NBD,
 * QEMU 7.2). A write is acknowledged to the guest once both hosts have it. The target starts the guest only when this
 * agent sends the command, after the `left` mark is durable on this host, so that two guests never use the same volume.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { abortable } from '../../../lib/abortable.ts'
import { countOf } from '../../guest/answers.ts'
import type { LeavingVolumes, MigrationProgress } from '../driver.ts'
import { runDir as runDirName } from '../isolation.ts'
import { clearMark, hasMark, setMark } from '../transfer/marks.ts'
import { formatArrival as formatWire, openWire, type Wire } from '../transfer/wire.ts'
import type { ScsiAddress } from './hotplug.ts'
import {
  type ArrivalAddress,
  assertSameDevices,
  diskExport,
  diskSocket,
  hasMirror,
  type Leaving,
  memorySocket,
  migrationCapabilities,
  mirrorJob,
  mirrorNode,
  mirrorState,
  parseArrival,
  releaseMemory,
  remainingBytes,
  stayHere,
} from './migrate.ts'
import { asObject } from './qmp.ts'
import { createGate } from './gate.ts'
import { relayOut } from './relay.ts'
import { setCapabilities, unlimitedBytes } from './state-file.ts'

/** Protocol version that the two agents exchange in `hello`; both must have the same. */
export const volumesGreeting = 'qemu volumes 1'
const loadMs = 120_000
const runMs = 30_000

export interface LeavingWithVolumes extends Leaving {
  readonly vmDir: string
  readonly memoryMib: number
  readonly volumes: LeavingVolumes
  /** SCSI address of each volume. */
  readonly addresses: Readonly<Record<string, ScsiAddress>>
  readonly nodeOf: (volumeId: string) => string
}

interface Mirror {
  readonly device: string
  readonly export: string
  readonly job: string
  readonly node: string
}

/**
 * Migrates the VM with its volumes.
 * @throws the signal's reason when aborted, otherwise a StepError or Error. In both cases the guest keeps running on
 * this host.
 */
export async function handOverWithVolumes(
  source: LeavingWithVolumes,
  uri: string,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { qmp, vmDir } = source
  if (hasMark(vmDir, 'left')) return { downtimeMs: 0 } // the VM moved before the agent restarted
  const mirrors = mirrorsOf(source)
  await using undo = new AsyncDisposableStack()
  try {
    const address = parseArrival(uri)
    assertSameDevices(source, address)
    signal.throwIfAborted()
    // A migration that an earlier agent started cannot continue, because it used that agent's connections.
    if (await hasMirror(qmp)) throw new Error('the agent of the source host restarted during the migration')
    const wire = await openWire(wireOf(address), volumesGreeting)
    undo.defer(async () => wire.close())
    const onAbort = () => wire.close()
    signal.addEventListener('abort', onAbort, { once: true })
    undo.defer(async () => signal.removeEventListener('abort', onAbort))
    await wire.say({ say: 'volumes', addresses: source.addresses })
    await source.volumes.send(wire)
    await wire.say({ say: 'complete' })
    await expectSoon(wire, 'loaded', signal)
    const gate = release && createGate(() => remainingBytes(qmp))
    for (const [name, port, before] of [
      [diskSocket, address.diskPort, undefined],
      [memorySocket, address.port, gate],
    ] as const) {
      const relay = await relayOut(source.runDir, name, source.user, { host: address.host, port }, before)
      undo.defer(async () => relay.close())
    }
    for (const mirror of mirrors) await beginMirror(source, mirror)
    await untilReady(source, mirrors, onProgress, signal)
    await beginMemory(source)
    await releaseMemory(qmp, gate, release, signal)
    return await switchOver(source, mirrors, wire, onProgress, signal)
  } catch (error) {
    if (hasMark(vmDir, 'left')) return { downtimeMs: 0 }
    await stayHere(qmp, mirrors)
    throw signal.aborted ? signal.reason : error
  }
}

const wireOf = ({ host, volumes }: ArrivalAddress) => {
  if (!volumes) throw new Error('the target host does not accept the volumes of the VM')
  return formatWire({ host, ...volumes })
}

const expectSoon = (wire: Wire, word: 'loaded', signal: AbortSignal) =>
  abortable(wire.expect(word), AbortSignal.any([signal, AbortSignal.timeout(loadMs)]))

const mirrorsOf = ({ addresses, nodeOf }: LeavingWithVolumes): readonly Mirror[] => [
  { device: 'scratch', export: diskExport, job: mirrorJob, node: mirrorNode },
  ...Object.keys(addresses).map(volumeId => {
    const device = nodeOf(volumeId)
    return { device, export: device, job: `m${device.slice(1)}`, node: `t${device.slice(1)}` }
  }),
]

async function beginMirror({ qmp }: LeavingWithVolumes, mirror: Mirror): Promise<void> {
  const server = { type: 'unix', path: `${runDirName}/${diskSocket}` }
  await qmp.execute('blockdev-add', { driver: 'nbd', 'node-name': mirror.node, server, export: mirror.export })
  await qmp.execute('blockdev-mirror', {
    'job-id': mirror.job,
    device: mirror.device,
    target: mirror.node,
    sync: 'full',
    'auto-dismiss': false,
    'copy-mode': 'write-blocking',
  })
}

/** Resolves when the target's disks are in sync and every write goes to both hosts. */
async function untilReady(
  { qmp, memoryMib }: LeavingWithVolumes,
  mirrors: readonly Mirror[],
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const jobs = await Promise.all(mirrors.map(one => mirrorState(qmp, one.job)))
    const sum = (of: (job: (typeof jobs)[number]) => number) => jobs.reduce((total, job) => total + of(job), 0)
    onProgress(
      progressOf(
        sum(job => job.doneBytes),
        sum(job => job.totalBytes) + memoryMib * 2 ** 20,
      ),
    )
    const lost = jobs.find(job => job.failed !== undefined || !job.there)
    if (lost)
      throw new Error(
        `copying a disk of the VM to the target host failed: ${lost.failed ?? 'QEMU no longer has the copy job'}`,
      )
    if (jobs.every(job => job.ready)) return
    signal.throwIfAborted()
    await sleep(20)
  }
}

const progressOf = (transferredBytes: number, totalBytes: number): MigrationProgress => ({
  transferredBytes,
  totalBytes,
  percent: totalBytes === 0 ? 0 : Math.min(99, Math.round((1000 * transferredBytes) / totalBytes) / 10),
})

async function beginMemory({ qmp }: LeavingWithVolumes): Promise<void> {
  await setCapabilities(qmp, migrationCapabilities)
  await qmp.execute('migrate-set-parameters', { 'max-bandwidth': unlimitedBytes, 'announce-rounds': 1 })
  await qmp.execute('migrate', { uri: `unix:${runDirName}/${memorySocket}` })
}

async function switchOver(
  source: LeavingWithVolumes,
  mirrors: readonly Mirror[],
  wire: Wire,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
): Promise<{ downtimeMs: number }> {
  const { qmp, vmDir } = source
  const jobs = await Promise.all(mirrors.map(one => mirrorState(qmp, one.job)))
  const diskBytes = jobs.reduce((total, job) => total + job.totalBytes, 0)
  let stoppedMs: number | undefined
  for (;;) {
    const state = asObject(await qmp.execute('query-migrate'))
    const ram = asObject(state.ram)
    const total = countOf(ram.total)
    onProgress(progressOf(diskBytes + total - countOf(ram.remaining ?? total), diskBytes + total))
    if (state.status === 'completed') break
    if (state.status === 'failed' || state.status === 'cancelled')
      throw new Error(
        `sending the memory and device state of the VM to the target host failed: ${String(state['error-desc'] ?? state.status)}`,
      )
    signal.throwIfAborted()
    if (state.status === 'pre-switchover') {
      // The guest is paused now. Ending the mirrors flushes the guest's last writes to the target.
      stoppedMs = performance.now()
      for (const mirror of mirrors) await endWhole(source, mirror)
      await wire.say({ say: 'complete' })
      await expectSoon(wire, 'loaded', signal)
      await qmp.execute('migrate-continue', { state: 'pre-switchover' })
      while (asObject(await qmp.execute('query-migrate')).status === 'pre-switchover') await sleep(1)
    } else await sleep(10)
  }
  signal.throwIfAborted()
  await setMark(vmDir, 'left')
  await wire.say({ say: 'go' }).catch(() => undefined)
  await untilRunning(wire, vmDir)
  return { downtimeMs: Math.round(performance.now() - (stoppedMs ?? performance.now())) }
}

/** Ends a mirror that is in sync: a cancel without force leaves two identical disks, unless the job has an error. */
async function endWhole({ qmp }: LeavingWithVolumes, { job }: Mirror): Promise<void> {
  await qmp.execute('block-job-cancel', { device: job, force: false })
  for (;;) {
    const all = await qmp.execute('query-jobs')
    const found = (Array.isArray(all) ? all : []).map(asObject).find(one => one.id === job)
    if (!found || found.error !== undefined)
      throw new Error(`copying a disk of the VM to the target host failed: ${String(found?.error)}`)
    if (found.status === 'concluded') return void (await qmp.execute('job-dismiss', { id: job }))
    await sleep(2)
  }
}

/** Waits for the target's answer. The guest may run on this host again only if the answer is `failed`. */
async function untilRunning(wire: Wire, vmDir: string): Promise<void> {
  const answer = await abortable(wire.next(), AbortSignal.timeout(runMs)).catch(() => undefined)
  if (answer?.kind !== 'message' || answer.message.say !== 'failed') return
  await clearMark(vmDir, 'left')
  throw new Error(`the target host could not start the VM: ${answer.message.reason}`)
}
