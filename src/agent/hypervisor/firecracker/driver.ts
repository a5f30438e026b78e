import { existsSync } from 'node:fs'
import { arch, release } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { isRunning } from '../../../lib/process-identity.ts'
import { vsockPorts } from '../../guest/ports.ts'
import { StepError } from '../../vm/errors.ts'
import type { Driver, Machine, Running, VmHome, Watcher } from '../driver.ts'
import type { Isolation } from '../isolation.ts'
import { adoptedWorkload, connectGuest, type LaunchPlan, machineFor, type Platform } from '../launch.ts'
import { parseWorkload } from '../machine.ts'
import { type PrepareDeps, prepareFrom, prepareVm } from '../prepare.ts'
import { endProcess } from '../process.ts'
import { hostCpu } from '../snapshot-files.ts'
import { clearMark, hasMark } from '../transfer/marks.ts'
import { vmmHttp } from '../vmm-http.ts'
import { bootVm, restoreVm } from './boot.ts'
import {
  apiSocket,
  type Cell,
  cellId,
  cellName,
  consoleTail,
  findCells,
  type FirecrackerPrograms,
  makeCell,
  removeCell,
  spawnFirecracker,
  vsockSocket,
} from './cell.ts'
import { handOver } from './migrate.ts'
import { probeFirecracker } from './probe.ts'
import { receiveVm } from './receive.ts'
import { inspect, readMemory, setBalloon, setState, takeSnapshot } from './vmm.ts'
import { volumes } from './volumes.ts'

export interface FirecrackerDeps extends PrepareDeps {
  readonly cacheDir: string
  /** The agent's own directory: its Firecrackers carry it in their id. */
  readonly dataDir: string
  readonly isolation: Isolation
  /** Undefined: not installed. */
  readonly programs: FirecrackerPrograms | undefined
  /** A guest that has not started its workload by then is hung. */
  readonly bootLimitMs: number
  /** The address where VMs from other hosts arrive. */
  readonly migrationHost: string
}

/** Firecracker v1.16 with KVM, over its API on a unix socket; the guest talks over vsock. */
export function firecrackerDriver(deps: FirecrackerDeps): Driver {
  const { isolation, dataDir, network } = deps
  const platform = firecrackerPlatform(deps)
  let kind: Promise<string> | undefined
  const madeBy = () => (kind ??= kindOf(installed(deps).firecracker))
  const planFor = async (rest: Pick<LaunchPlan, 'home' | 'prepared' | 'boot' | 'watcher'>): Promise<LaunchPlan> => ({
    ...{ ...rest, isolation, madeBy: await madeBy(), limitMs: deps.bootLimitMs, fromSeq: 0 },
  })
  return {
    name: 'firecracker',
    capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate: 'stop-and-copy' },
    network: network.mode,
    probe: signal => probeFirecracker(deps, signal),
    snapshotKind: madeBy,
    async prepare(home, context) {
      refuseDrives(home)
      return home.from ? prepareFrom(deps, home, home.from, await madeBy()) : prepareVm(deps, home, context)
    },
    async boot(home, prepared, boot, watcher, context) {
      const plan = await planFor({ home, prepared, boot, watcher })
      if (home.from) return restoreVm(platform, plan, home.from, context)
      return bootVm(platform, deps, plan, context)
    },
    receive: async (home, prepared, boot, watcher, context) =>
      receiveVm(platform, deps.migrationHost, await planFor({ home, prepared, boot, watcher }), context),
    adopt: async (home, running, fromSeq, watcher) =>
      adoptVm(platform, deps, home, running, { fromSeq, watcher, madeBy: await madeBy() }),
    async release(vmId, dir) {
      await isolation.cgroups?.release(vmId)
      await removeCell(dir)
      await network.release(vmId)
    },
    async reclaim(keep) {
      const kept = new Set([...keep].map(vmId => cellId(dataDir, vmId)))
      for (const cell of await findCells(dataDir)) if (!kept.has(cell.id)) await endProcess(cell)
      await isolation.cgroups?.reclaim(keep)
      await network.reclaim(keep)
    },
    async close() {
      await isolation.cgroups?.close()
      await network.close()
    },
  }
}

/** Firecracker's own memory and buffers, and a part of the disks' cache. */
const overheadMib = 128

function firecrackerPlatform(deps: FirecrackerDeps): Platform<Cell> {
  const apiIn = (vmDir: string) => vmmHttp('Firecracker', join(vmDir, cellName), apiSocket)
  return {
    overheadMib,
    async start({ dir, vmId }, user) {
      const programs = installed(deps)
      const id = cellId(deps.dataDir, vmId)
      // One that an agent started which died before it could write that down.
      for (const stray of await findCells(deps.dataDir)) if (stray.id === id) await endProcess(stray)
      for (const mark of ['arriving', 'left'] as const) await clearMark(dir, mark)
      const cell = await makeCell({ dir, id }, programs, user)
      return { cell, process: await spawnFirecracker(dir, cell, programs) }
    },
    api: apiIn,
    greeting: '/version',
    ports: vmDir => vsockPorts(join(vmDir, cellName), vsockSocket),
    consoleTail,
    vmm(vm) {
      const { api, vmDir } = vm
      return {
        inspect: () => inspect(api),
        pause: () => setState(api, 'Paused'),
        resume: () => (hasMark(vmDir, 'left') ? Promise.reject(runsElsewhere()) : setState(api, 'Resumed')),
        readMemory: () => readMemory(vm),
        setBalloon: targetMib => setBalloon(vm, targetMib),
        snapshot: (target, logSeq) => takeSnapshot(vm, target, logSeq),
        ...volumes(vm),
        handOver: (uri, onProgress, signal) => handOver(vm, uri, onProgress, signal),
        hasLeft: () => Promise.resolve(hasMark(vmDir, 'left')),
      }
    },
  }
}

function runsElsewhere(): Error {
  return new Error('the VM runs on another host')
}

function installed({ programs }: FirecrackerDeps): FirecrackerPrograms {
  if (programs) return programs
  throw new StepError('unsupported_by_hypervisor', 'Firecracker is not installed here: set MOTE_FIRECRACKER_BIN')
}

/** Firecracker gives drives serials of its own, by which a guest that was not told could not find them. */
function refuseDrives({ drives = [] }: VmHome): void {
  if (drives.length > 0) throw new StepError('unsupported_by_hypervisor', 'firecracker cannot show raw drives')
}

/** `1` counts changes of the machine's layout. Snapshots move neither between CPU models nor between host kernels. */
async function kindOf(firecracker: string): Promise<string> {
  const [version, format] = await Promise.all([
    run(firecracker, ['--version']).then(text => /v([\d.]+\S*)/.exec(text)?.[1] ?? 'unknown'),
    run(firecracker, ['--snapshot-version']).then(text => /v?(\d+\.\d+\.\d+)/.exec(text)?.[1] ?? 'unknown'),
  ])
  return `firecracker ${version} snapshot ${format} layout 1, ${arch()}, ${hostCpu()}, Linux ${release()}`
}

/** Finds the process that an earlier agent left; undefined when it has gone or cannot be talked to. */
async function adoptVm(
  platform: Platform<Cell>,
  { isolation, dataDir }: FirecrackerDeps,
  home: VmHome,
  running: Running,
  follow: { readonly fromSeq: number; readonly watcher: Watcher; readonly madeBy: string },
): Promise<Machine | undefined> {
  const id = cellId(dataDir, home.vmId)
  // The id too: after a reboot of the host, pid and start time may by chance be those of a stranger.
  const ours = (await findCells(dataDir)).some(cell => cell.id === id && cell.process.pid === running.process.pid)
  if (!ours || !isRunning(running.process)) return undefined
  try {
    if (hasMark(home.dir, 'arriving') || !existsSync(join(home.dir, cellName))) throw new Error('half of a VM')
    const state = await inspect(platform.api(home.dir))
    const guest = connectGuest(platform, home.dir, running, follow)
    const status = await adoptedWorkload(guest, state)
    return machineFor(platform, { home, running, guest, isolation, ...follow }, parseWorkload(status))
  } catch {
    // Alive but not ours to talk to: without its socket it cannot be run, only ended.
    await endProcess(running)
    return undefined
  }
}
