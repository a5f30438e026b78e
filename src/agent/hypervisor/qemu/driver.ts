import { readlink, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { abortable } from '../../../lib/abortable.ts'
import { hasCode } from '../../../lib/files.ts'
import { isRunning } from '../../../lib/process-identity.ts'
import { makeScratch } from '../../disk/scratch.ts'
import { configDisk } from '../../guest/config-disk.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { hostTscKhz } from '../../guest/tsc.ts'
import type { RunConfig } from '../../image/config.ts'
import { ImageError } from '../../image/reference.ts'
import type { ImageStore } from '../../image/store.ts'
import type { Network, Nic } from '../../net/net.ts'
import type { Driver, Machine, PrepareContext, Prepared, Running, VmHome, Watcher } from '../driver.ts'
import { kernelArgs, qemuArgs } from './argv.ts'
import { openConsole } from './console.ts'
import { connectMachine, endProcess, enableMemoryStats, parseWorkload, qemuMachine } from './machine.ts'
import { probeQemu } from './probe.ts'
import { spawnQemu } from './spawn.ts'

export interface QemuDeps {
  readonly cacheDir: string
  readonly images: ImageStore
  readonly network: Network
  /** Made at first use; shared by all boots. */
  readonly kernel: () => Promise<GuestKernel>
  /** A guest that has not started its workload by then is hung. */
  readonly bootLimitMs: number
}

/** QEMU's microvm machine: KVM where a proof boot passes, otherwise TCG, so that real VMs run on any Linux machine. */
export function qemuDriver(deps: QemuDeps): Driver {
  let accel: 'kvm' | 'tcg' = 'tcg'
  let tscKhz: Promise<number> | undefined
  return {
    name: 'qemu',
    capabilities: { pause: true, snapshot: false, hotplugDisk: false, balloon: false, migrate: 'none' },
    network: deps.network.mode,
    async probe(signal) {
      const proof = await probeQemu(deps.cacheDir, deps.kernel, signal)
      accel = proof.accel
      return proof
    },
    async prepare(home, context) {
      // Given up when a newer wish comes; the base and the kernel are made to the end, others may want them.
      const made = Promise.all([deps.images.base(home.spec.image, context), deps.kernel()])
      const [base] = await abortable(made, context.signal)
      const nic = await deps.network.connect(home.vmId, home.spec.port)
      await writePrivate(join(home.dir, 'config.img'), guestConfig(home, base.config, nic))
      return { imageDigest: base.config.digest, endpoint: nic.endpoint, notes: notesOf(base.file, nic) }
    },
    async boot(home, prepared, boot, watcher, context) {
      const plan = { home, prepared, boot, accel, tscKhz: await (tscKhz ??= hostTscKhz()) }
      return bootVm(deps, plan, watcher, context)
    },
    adopt: (home, running, fromSeq, watcher) => adoptVm(home, running, fromSeq, watcher),
    async release(vmId) {
      await deps.network.release(vmId)
    },
    reclaim: keep => deps.network.reclaim(keep),
    close: () => deps.network.close(),
  }
}

interface Boot {
  readonly home: VmHome
  readonly prepared: Prepared
  readonly boot: number
  readonly accel: 'kvm' | 'tcg'
  readonly tscKhz: number
}

async function bootVm(
  deps: QemuDeps,
  { home, prepared, boot, accel, tscKhz }: Boot,
  watcher: Watcher,
  context: PrepareContext,
): Promise<Machine> {
  const { dir, spec } = home
  await context.time('disk', () => makeScratch(deps.cacheDir, join(dir, 'scratch.img'), spec.diskMib))
  const { kernel, initrd } = await deps.kernel()
  const { netdev, mac, base, tap } = readNotes(prepared)
  const args = qemuArgs({
    ...{ accel, kernel, initrd, kernelArgs: kernelArgs(tscKhz), vcpus: spec.vcpus, memoryMib: spec.memoryMib },
    ...{ base, scratch: 'scratch.img', config: 'config.img', netdev, mac },
  })
  const process = await spawnQemu(dir, args)
  const running: Running = { prepared, process: process.identity, boot }
  const limit = AbortSignal.any([context.signal, AbortSignal.timeout(deps.bootLimitMs)])
  try {
    const unlessEnded = <T>(step: Promise<T>) => abortable(Promise.race([step, process.ended]), limit)
    const links = await context.time('spawn', () => unlessEnded(connectSoon(dir, watcher, limit)))
    const console = await openConsole(dir)
    const workload = await context.time('boot', () =>
      unlessEnded(links.guest.ready).catch((error: unknown) => {
        links.qmp.close()
        links.guest.close()
        console.close()
        throw new Error(`the guest did not start: ${messageOf(error)}; console: ${console.tail() || 'silent'}`, {
          cause: error,
        })
      }),
    )
    await enableMemoryStats(links.qmp)
    return qemuMachine({ running, ...links, workload: parseWorkload(workload), console, watcher, tap })
  } catch (error) {
    await endProcess(running)
    throw error
  }
}

/** QEMU makes its sockets some 60 ms after it was started; 4 ms between attempts costs nothing. */
async function connectSoon(dir: string, watcher: Watcher, signal: AbortSignal) {
  for (;;) {
    try {
      return await connectMachine(dir, 0, watcher)
    } catch (error) {
      if (!hasCode(error, 'ENOENT') && !hasCode(error, 'ECONNREFUSED')) throw error
    }
    await sleep(4, undefined, { signal })
  }
}

async function adoptVm(
  home: VmHome,
  running: Running,
  fromSeq: number,
  watcher: Watcher,
): Promise<Machine | undefined> {
  // The working directory too: after a reboot of the host, pid and start time may by chance be those of a stranger.
  const cwd = await readlink(`/proc/${running.process.pid}/cwd`).catch(() => '')
  if (!isRunning(running.process) || cwd !== (await realpath(home.dir))) return undefined
  try {
    const links = await connectMachine(home.dir, fromSeq, watcher)
    const console = await openConsole(home.dir)
    const { tap } = readNotes(running.prepared)
    // A paused guest answers nothing; its workload can only be running or have been reported.
    const workload = await Promise.race([links.guest.ready, sleep(2_000, 'running', { ref: false })])
    return qemuMachine({ running, ...links, workload: parseWorkload(workload), console, watcher, tap })
  } catch {
    // Alive but not ours to talk to: without its sockets it cannot be run, only ended.
    await endProcess(running)
    return undefined
  }
}

function guestConfig({ spec }: VmHome, image: RunConfig, nic: Nic): Buffer {
  const argv = spec.command ?? [...image.argv.entrypoint, ...image.argv.cmd]
  if (argv.length === 0) throw new ImageError('image_unusable', 'the image has no entrypoint and no command was given')
  const { env, cwd, uid, gid, groups, stopSignal, baseType } = image
  return configDisk({
    argv,
    env: { ...env, PORT: String(spec.port), ...spec.env },
    ...{ cwd, uid, gid, groups, stopSignal, baseType, hostname: spec.hostname, network: nic.guest },
  })
}

/** The environment may hold secrets: nobody else reads the file, and it never exists with a wider mode. */
async function writePrivate(path: string, data: Buffer): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, data, { mode: 0o600, flag: 'wx' })
}

function notesOf(base: string, nic: Nic): Prepared['notes'] {
  return { base, netdev: nic.netdev, mac: nic.mac, tap: nic.tap }
}

function readNotes({ notes }: Prepared) {
  const text = (key: string) => String(notes[key] ?? '')
  return { base: text('base'), netdev: text('netdev'), mac: text('mac'), tap: notes.tap ? text('tap') : null }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
