import { chown, rm, stat } from 'node:fs/promises'
import { closeSync, openSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { abortable } from '../../../lib/abortable.ts'
import type { MigrationProgress } from '../driver.ts'
import { runDir } from '../isolation.ts'
import { endProcess } from '../process.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { byteReader } from '../transfer/bytes.ts'
import { type Sent, sendFile } from '../transfer/files.ts'
import { clearMark, hasMark, setMark } from '../transfer/marks.ts'
import { openWire, type Wire } from '../transfer/wire.ts'
import type { VmContext } from '../vmm/platform.ts'
import { commands, passPayload, type Peer, peerOver, readRequest, readResponse, type Response } from './protocol.ts'
import { inspect, setPaused } from './vmm.ts'

const leavingSocket = 'leaving.sock'
const runMs = 30_000

/**
 * Migrates a VM live. Cloud Hypervisor transfers memory and devices; both agents relay its protocol and add the scratch
 * disk. The disk is sent first, while the guest runs. Before the agent forwards the last request (`Complete`), when the
 * guest is paused, it sends the changed parts of the disk. If a step before `Complete` fails, the guest resumes on this
 * host. After `Complete`, the guest resumes on this host only if the target refuses it.
 * @throws the signal's reason when aborted, otherwise a StepError or Error. In both cases the guest keeps running on
 * this host.
 */
export async function handOver(
  vm: VmContext,
  uri: string,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { vmDir } = vm
  if (hasMark(vmDir, 'left')) return { downtimeMs: 0 } // the VM moved before the agent restarted
  const ends: Array<() => void> = []
  const closeAll = () => ends.forEach(end => end())
  try {
    signal.throwIfAborted()
    const wire = await openWire(uri, vm.madeBy)
    ends.push(wire.close)
    signal.addEventListener('abort', closeAll, { once: true })
    return await sendVm(vm, wire, { onEnd: end => ends.push(end), onProgress, release }, signal)
  } catch (error) {
    if (hasMark(vmDir, 'left')) {
      // Kill the VMM before its connection is closed, because otherwise it would resume the guest on this host.
      await endProcess(vm.running)
      return { downtimeMs: 0 }
    }
    closeAll()
    await untilBack(vm)
    throw signal.aborted ? signal.reason : error
  } finally {
    signal.removeEventListener('abort', closeAll)
    closeAll()
    await rm(join(vmDir, runDir, leavingSocket), { force: true })
  }
}

interface Hooks {
  /** Registers a function to call at the end of the migration, whether it succeeds or fails. */
  readonly onEnd: (end: () => void) => void
  readonly onProgress: (progress: MigrationProgress) => void
  readonly release: (() => Promise<void>) | undefined
}

async function sendVm(
  vm: VmContext,
  wire: Wire,
  { onEnd, onProgress, release }: Hooks,
  signal: AbortSignal,
): Promise<{ downtimeMs: number }> {
  const { vmDir, api, running, memoryMib, user } = vm
  const scratch = join(vmDir, scratchFile)
  const totalBytes = (await stat(scratch)).size + memoryMib * 2 ** 20
  let transferredBytes = 0
  const onBytes = (bytes: number) => {
    transferredBytes += bytes
    const percent = Math.min(99, Math.round((1000 * transferredBytes) / totalBytes) / 10)
    onProgress({ percent, transferredBytes, totalBytes })
  }
  await sendFile(wire, configFile, join(vmDir, configFile))
  const sent = await sendFile(wire, scratchFile, scratch, undefined, onBytes)
  signal.throwIfAborted()
  const { server, connection } = await listen(join(vmDir, runDir))
  onEnd(() => server.close())
  if (user) await chown(join(vmDir, runDir, leavingSocket), user.uid, user.gid)
  await release?.()
  await api.call('PUT', '/vm.send-migration', { destination_url: `unix:${leavingSocket}` })
  const local = peerOver(await abortable(connection, AbortSignal.any([signal, AbortSignal.timeout(runMs)])))
  onEnd(local.close)
  const stoppedMs = await relay(local, wire, { vmDir, scratch, sent, onBytes })
  await abortable(wire.expect('running'), AbortSignal.timeout(runMs)).catch(() => undefined)
  await endProcess(running)
  return { downtimeMs: Math.round(performance.now() - stoppedMs) }
}

interface Disk {
  readonly vmDir: string
  readonly scratch: string
  readonly sent: Sent
  readonly onBytes: (bytes: number) => void
}

/** Relays requests to the target and responses back. @returns the performance.now() at which the guest was paused */
async function relay(local: Peer, wire: Wire, { vmDir, scratch, sent, onBytes }: Disk): Promise<number> {
  const answers = byteReader(tunnelOf(wire))
  // Each memory request sets this time: the last one is sent right after the guest was paused.
  let stoppedMs = performance.now()
  const send = async (data: Buffer) => {
    onBytes(data.length)
    await wire.tunnel(data)
  }
  for (;;) {
    const request = await readRequest(local.from)
    const isLast = request.command === commands.complete || request.command === commands.completePaused
    if (request.command === commands.memory) stoppedMs = performance.now()
    if (isLast) {
      await sendFile(wire, scratchFile, scratch, sent)
      await setMark(vmDir, 'left')
    }
    await send(request.header)
    await passPayload(request, local.from, send)
    if (request.command === commands.abandon)
      throw new Error('Cloud Hypervisor on the source host canceled the migration')
    const response = await readResponse(answers)
    if (isLast) return settle(response, local, vmDir, stoppedMs)
    await local.send(response.bytes)
  }
}

/** Forwards the target's last response. The guest may run here again only if the target explicitly refuses it. */
async function settle({ ok, bytes }: Response, local: Peer, vmDir: string, stoppedMs: number): Promise<number> {
  if (!ok) await clearMark(vmDir, 'left')
  await local.send(bytes)
  if (!ok) throw new Error('the target host could not start the VM')
  return stoppedMs
}

/** Yields the responses of the target's Cloud Hypervisor. */
async function* tunnelOf(wire: Wire): AsyncGenerator<Buffer> {
  for (;;) {
    const frame = await wire.next()
    if (frame?.kind === 'tunnel') yield frame.data
    else if (frame?.kind === 'message' && frame.message.say === 'failed')
      throw new Error(`the target host reported: ${frame.message.reason}`)
    else throw new Error('the target host ended the transfer before the VM ran there')
  }
}

const backMs = 30_000

/** Waits until Cloud Hypervisor resumes the guest, shortly after its connection is closed. */
async function untilBack({ api }: VmContext): Promise<void> {
  const deadline = performance.now() + backMs
  for (;;) {
    const back = await setPaused(api, false).then(
      () => inspect(api),
      (error: unknown) => (performance.now() > deadline ? Promise.reject(error) : undefined),
    )
    if (back === 'running') return
    await sleep(20)
  }
}

/** Listens through /proc/self/fd, because a socket path is limited to 107 bytes. */
async function listen(dir: string): Promise<{ server: Server; connection: Promise<Socket> }> {
  await rm(join(dir, leavingSocket), { force: true })
  const connection = Promise.withResolvers<Socket>()
  const server = createServer({ pauseOnConnect: false }, connection.resolve)
  const fd = openSync(dir, 'r')
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(`/proc/self/fd/${fd}/${leavingSocket}`, resolve)
    })
    return { server, connection: connection.promise }
  } finally {
    closeSync(fd)
  }
}
