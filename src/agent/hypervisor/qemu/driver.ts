import { readFileSync } from 'node:fs'
import { arch } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { makeScratch } from '../../disk/scratch.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { hostTscKhz } from '../../guest/tsc.ts'
import type { ImageStore } from '../../image/store.ts'
import type { Network } from '../../net/net.ts'
import type { Driver, Machine, PrepareContext } from '../driver.ts'
import { adoptVm } from './adopt.ts'
import { kernelArgs } from './argv.ts'
import { enableMemoryStats } from './balloon.ts'
import { type Launch, launch } from './launch.ts'
import { parseWorkload, qemuMachine } from './machine.ts'
import { prepareFrom, prepareVm, readNotes } from './prepare.ts'
import { probeQemu } from './probe.ts'
import { receiveVm } from './receive.ts'
import { restoreVm } from './restore.ts'
import { qemuBinary } from './spawn.ts'

export interface QemuDeps {
  readonly cacheDir: string
  readonly images: ImageStore
  readonly network: Network
  /** Made at first use; shared by all boots. */
  readonly kernel: () => Promise<GuestKernel>
  /** A guest that has not started its workload by then is hung. */
  readonly bootLimitMs: number
  /** The address where VMs from other hosts arrive. */
  readonly migrationHost: string
}

/** QEMU's microvm machine: KVM where a proof boot passes, otherwise TCG, so that real VMs run on any Linux machine. */
export function qemuDriver(deps: QemuDeps): Driver {
  let accel: 'kvm' | 'tcg' = 'tcg'
  let tscKhz: Promise<number> | undefined
  let version: Promise<string> | undefined
  const madeBy = async () => kindOf(await (version ??= qemuVersion()), accel)
  return {
    name: 'qemu',
    capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate: 'live' },
    network: deps.network.mode,
    async probe(signal) {
      const proof = await probeQemu(deps.cacheDir, deps.kernel, signal)
      accel = proof.accel
      return proof
    },
    snapshotKind: madeBy,
    prepare: async (home, context) =>
      home.from ? prepareFrom(deps, home, home.from, await madeBy()) : prepareVm(deps, home, context),
    async boot(home, prepared, boot, watcher, context) {
      const plan = { home, prepared, boot, accel, watcher, limitMs: deps.bootLimitMs }
      if (home.from) return restoreVm(deps, plan, home.from, await madeBy(), context)
      return bootVm(deps, { ...plan, tscKhz: await (tscKhz ??= hostTscKhz()) }, await madeBy(), context)
    },
    receive: async (home, prepared, boot, watcher, context) =>
      receiveVm(deps, { home, prepared, boot, accel, watcher, limitMs: deps.bootLimitMs }, await madeBy(), context),
    adopt: async (home, running, fromSeq, watcher) => adoptVm(home, running, fromSeq, watcher, await madeBy()),
    async release(vmId) {
      await deps.network.release(vmId)
    },
    reclaim: keep => deps.network.reclaim(keep),
    close: () => deps.network.close(),
  }
}

async function qemuVersion(): Promise<string> {
  return /version (\S+)/.exec(await run(qemuBinary, ['--version']))?.[1] ?? 'unknown'
}

/** Under emulation the guest's CPU is QEMU's own; with KVM it is the host's. `1` counts changes of the machine's layout. */
function kindOf(version: string, accel: 'kvm' | 'tcg'): string {
  const cpu = /^model name\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown'
  return `qemu ${version} microvm 1, ${arch()}, ${accel === 'kvm' ? cpu : 'tcg max'}`
}

async function bootVm(
  deps: QemuDeps,
  plan: Omit<Launch, 'start' | 'fromSeq'> & { readonly tscKhz: number },
  madeBy: string,
  context: PrepareContext,
): Promise<Machine> {
  const { home, prepared, watcher, tscKhz } = plan
  const { dir, spec } = home
  await context.time('disk', () => makeScratch(deps.cacheDir, join(dir, 'scratch.img'), spec.diskMib))
  const { kernel, initrd } = await deps.kernel()
  const start = { kind: 'boot', kernel, initrd, kernelArgs: kernelArgs(tscKhz) } as const
  return launch({ ...plan, start, fromSeq: 0 }, context, async ({ qmp, guest, running, console, unlessEnded }) => {
    const status = await context.time('boot', () => unlessEnded(guest.ready))
    await enableMemoryStats(qmp)
    return qemuMachine({
      ...{ running, qmp, guest, console, watcher, workload: parseWorkload(status), madeBy, dir, fromSeq: 0 },
      ...{ tap: readNotes(prepared).tap, memoryMib: spec.memoryMib },
    })
  })
}
