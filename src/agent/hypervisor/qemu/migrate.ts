import { setTimeout as sleep } from 'node:timers/promises'
import { countOf } from '../../guest/answers.ts'
import { StepError } from '../../base/step-error.ts'
import type { MigrationProgress } from '../driver.ts'
import { runDir as runDirName, type VmUser } from '../isolation.ts'
import { dropJob } from './copy-disk.ts'
import { asObject, type Qmp } from './qmp.ts'
import { createGate, type Gate } from './gate.ts'
import { relayOut } from './relay.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { setCapabilities, unlimitedBytes } from './state-file.ts'

/**
 * The address of a QEMU that waits for a VM:
 * `tcp://<host>:<port>?disk=<port>[&volumes=<port>.<key>][&devices=command-line]`. Memory and device state go to
 * `port`, the scratch disk to `disk`; `devices` is the machine type of the target.
 */
export interface ArrivalAddress {
  readonly host: string
  readonly port: number
  readonly diskPort: number
  /** For a VM with volumes: the port on which the target's agent, not QEMU, receives them, and the key that it expects. */
  readonly volumes?: { readonly port: number; readonly key: string }
  readonly devices: GuestKernel['devices']
}

export const diskExport = 'scratch'
export const mirrorJob = 'hand-over'
export const mirrorNode = 'hand-over-target'

export function formatArrival({ host, port, diskPort, volumes, devices }: ArrivalAddress): string {
  const forVolumes = volumes ? `&volumes=${volumes.port}.${volumes.key}` : ''
  return `tcp://${host}:${port}?disk=${diskPort}${forVolumes}${devices === 'acpi' ? '' : `&devices=${devices}`}`
}

/** Parses the address that the target reported. @throws StepError `invalid_request` */
export function parseArrival(uri: string): ArrivalAddress {
  const match = /^tcp:\/\/([^/?]+):(\d+)\?disk=(\d+)(?:&volumes=(\d+)\.([0-9a-f]{32}))?(&devices=command-line)?$/.exec(
    uri,
  )
  if (!match)
    throw new StepError(
      'invalid_request',
      'the migration address is invalid: use the address that the target host reported',
    )
  return {
    host: match[1] ?? '',
    port: Number(match[2]),
    diskPort: Number(match[3]),
    ...(match[5] === undefined ? {} : { volumes: { port: Number(match[4]), key: match[5] } }),
    devices: match[6] === undefined ? 'acpi' : 'command-line',
  }
}

/** QEMU's migration capabilities, set on both hosts. `return-path`: a migration ends once the target has everything. */
export const migrationCapabilities = {
  'x-ignore-shared': false,
  'return-path': true,
  'pause-before-switchover': true,
  'auto-converge': true,
}

/** Sockets in QEMU's run directory on both hosts. The agents relay their data. */
export const memorySocket = 'move.sock'
export const diskSocket = 'move-disk.sock'

/** The QEMU from which the VM migrates. */
export interface Leaving {
  readonly qmp: Qmp
  readonly runDir: string
  readonly user: VmUser | undefined
  readonly devices: GuestKernel['devices']
}

/**
 * Migrates a VM: copies scratch disk and memory while the guest runs, pauses the guest, copies the rest, and resumes it
 * on the target. The guest is paused only once `release` resolves. If the agent restarts, the migration fails, because
 * its data went through the old agent.
 * @throws the signal's reason when aborted, Error with QEMU's reason. In both cases the guest keeps running on this
 * host.
 */
export async function handOver(
  source: Leaving,
  uri: string,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { qmp, runDir, user } = source
  const address = parseArrival(uri)
  assertSameDevices(source, address)
  const underWay = await hasMirror(qmp)
  using relays = new DisposableStack()
  const gate = release && createGate(() => remainingBytes(qmp))
  const relay = async (name: string, port: number, before?: Gate) => {
    const opened = await relayOut(runDir, name, user, { host: address.host, port }, before)
    relays.defer(() => opened.close())
  }
  try {
    if (!underWay) {
      await relay(diskSocket, address.diskPort)
      await relay(memorySocket, address.port, gate)
      await mirrorDisk(qmp, signal)
      await setCapabilities(qmp, migrationCapabilities)
      await qmp.execute('migrate-set-parameters', { 'max-bandwidth': unlimitedBytes, 'announce-rounds': 1 })
      await qmp.execute('migrate', { uri: `unix:${runDirName}/${memorySocket}` })
      await releaseMemory(qmp, gate, release, signal)
    }
    return await follow(qmp, onProgress, signal)
  } catch (error) {
    await stayHere(qmp)
    throw error
  }
}

/**
 * Waits until the gate is closed, calls `release`, and opens the gate when `release` resolves. If the migration has
 * ended, it returns; the caller detects that.
 * @throws the signal's reason
 */
export async function releaseMemory(
  qmp: Qmp,
  gate: Gate | undefined,
  release: (() => Promise<void>) | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (!gate || !release) return
  while (!gate.closed()) {
    signal.throwIfAborted()
    if (over.has(String(asObject(await qmp.execute('query-migrate')).status))) return
    await sleep(10)
  }
  await release()
  gate.release()
}

const over: ReadonlySet<string> = new Set(['failed', 'cancelled', 'completed'])

export async function remainingBytes(qmp: Qmp): Promise<number | undefined> {
  const { remaining } = asObject(asObject(await qmp.execute('query-migrate')).ram)
  return typeof remaining === 'number' ? remaining : undefined
}

/** Checks that both hosts use the same machine type for guests. @throws StepError `migration_mismatch` */
export function assertSameDevices({ devices }: Pick<Leaving, 'devices'>, address: ArrivalAddress): void {
  if (address.devices === devices) return
  throw new StepError(
    'migration_mismatch',
    `this VM was started with a guest kernel of another kind than the target host uses (devices by ${devices} here, by ${address.devices} there): give both hosts the same MOTE_KERNEL and restart the VM, then move it`,
  )
}

export async function hasMirror(qmp: Pick<Qmp, 'execute'>, name = mirrorNode): Promise<boolean> {
  const nodes = await qmp.execute('query-named-block-nodes', { flat: true })
  return Array.isArray(nodes) && nodes.some(node => asObject(node)['node-name'] === name)
}

/**
 * True if the guest has moved to another host and must never run here again. QEMU's migration status is `completed`
 * also after an arrival or a snapshot, but only a guest that has moved away is in state `postmigrate`.
 */
export async function hasLeft(qmp: Pick<Qmp, 'execute'>): Promise<boolean> {
  if (!(await hasMirror(qmp)) || asObject(await qmp.execute('query-migrate')).status !== 'completed') return false
  return asObject(await qmp.execute('query-status')).status === 'postmigrate'
}

/** Resolves when the target's disk is in sync and every write goes to both hosts. */
async function mirrorDisk(qmp: Qmp, signal: AbortSignal): Promise<void> {
  const server = { type: 'unix', path: `${runDirName}/${diskSocket}` }
  await qmp.execute('blockdev-add', { driver: 'nbd', 'node-name': mirrorNode, server, export: diskExport })
  const job = { 'job-id': mirrorJob, device: 'scratch', target: mirrorNode, sync: 'full', 'auto-dismiss': true }
  await qmp.execute('blockdev-mirror', job)
  while (!(await mirrorState(qmp)).ready) {
    signal.throwIfAborted()
    await sleep(10)
  }
}

export interface MirrorState {
  /** The error of a mirror job that has ended and was not dismissed yet. */
  readonly failed: string | undefined
  readonly ready: boolean
  readonly there: boolean
  readonly doneBytes: number
  readonly totalBytes: number
}

export async function mirrorState(qmp: Qmp, name = mirrorJob): Promise<MirrorState> {
  const jobs = await qmp.execute('query-block-jobs')
  const job = (Array.isArray(jobs) ? jobs : []).map(asObject).find(one => one.device === name)
  if (job !== undefined && job['io-status'] !== undefined && job['io-status'] !== 'ok')
    throw new Error('copying a disk of the VM to the target host failed')
  const failed = job?.status === 'concluded' ? String(job.error ?? 'the copy job ended') : undefined
  const [doneBytes, totalBytes] = [countOf(job?.offset), countOf(job?.len)]
  return { failed, ready: job?.ready === true, there: job !== undefined, doneBytes, totalBytes }
}

async function follow(
  qmp: Qmp,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
): Promise<{ downtimeMs: number }> {
  for (;;) {
    const state = asObject(await qmp.execute('query-migrate'))
    const ram = asObject(state.ram)
    const totalBytes = countOf(ram.total)
    const left = countOf(ram.remaining ?? totalBytes)
    const percent = totalBytes > 0 ? Math.round((1000 * (totalBytes - left)) / totalBytes) / 10 : 0
    onProgress({ percent, totalBytes, transferredBytes: countOf(ram.transferred) })
    if (state.status === 'completed') return { downtimeMs: countOf(state.downtime) }
    if (state.status === 'failed' || state.status === 'cancelled') {
      throw new Error(
        `sending the memory and device state of the VM to the target host failed: ${String(state['error-desc'] ?? state.status)}`,
      )
    }
    signal.throwIfAborted()
    if (state.status === 'pre-switchover') await switchOver(qmp)
    else await sleep(10)
  }
}

/** Completes the migration of a paused guest. Ending the mirror flushes the disk's last writes to the target. */
async function switchOver(qmp: Qmp): Promise<void> {
  if ((await mirrorState(qmp)).there) await endMirror(qmp)
  await qmp.execute('migrate-continue', { state: 'pre-switchover' })
  while (asObject(await qmp.execute('query-migrate')).status === 'pre-switchover') await sleep(1)
}

/** Ends a mirror that is in sync. Cancelling it without `force` leaves two identical disks. */
async function endMirror(qmp: Qmp): Promise<void> {
  await qmp.execute('block-job-cancel', { device: mirrorJob, force: false })
  while ((await mirrorState(qmp).catch(() => ({ there: true }))).there) await sleep(2)
}

/** Cancels the migration. Afterwards the guest runs only on this host. */
export async function stayHere(
  qmp: Qmp,
  mirrors: readonly { readonly job: string; readonly node: string }[] = [{ job: mirrorJob, node: mirrorNode }],
): Promise<void> {
  const status = async () => asObject(await qmp.execute('query-migrate')).status
  await qmp.execute('migrate_cancel')
  while (['setup', 'active', 'pre-switchover', 'device', 'cancelling'].includes(String(await status()))) await sleep(5)
  if (asObject(await qmp.execute('query-status')).running !== true) await qmp.execute('cont')
  for (const { job, node } of mirrors) {
    await dropJob(qmp, job)
    if (await hasMirror(qmp, node)) await qmp.execute('blockdev-del', { 'node-name': node })
  }
}
