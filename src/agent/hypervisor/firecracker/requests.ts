import { commonKernelArgs } from '../kernel-args.ts'
import type { VmmMethod } from '../vmm-http.ts'
import { consoleFile, emptyDrive, vsockSocket } from './cell.ts'

/** One call of Firecracker's API (src/firecracker/swagger/firecracker.yaml, v1.16). */
export interface ApiCall {
  readonly method: VmmMethod
  readonly path: string
  readonly body: unknown
}

/** Drives that volumes come into while the VM runs: whether a drive is read-only cannot be changed. */
export const slots = [
  ...['rw0', 'rw1', 'rw2', 'rw3', 'rw4', 'rw5'].map(id => ({ id, readOnly: false })),
  ...['ro0', 'ro1'].map(id => ({ id, readOnly: true })),
] as const

export const files = {
  ...{ kernel: 'vmlinux', initrd: 'init.cpio', base: 'base.img', scratch: 'scratch.img', config: 'config.img' },
  ...{ memory: 'memory', state: 'state' },
} as const

/** Names the disks for the guest, by the serials that Firecracker gives them. */
export interface DiskSerials {
  readonly base: string
  readonly scratch: string
  readonly config: string
}

export interface BootPlan {
  readonly vcpus: number
  readonly memoryMib: number
  readonly tap: string
  readonly mac: string
  readonly serials: DiskSerials
}

/**
 * What one VM may take from all others on the host. Far above what a web app needs; a neighbour that tries for more
 * waits. Tokens are refilled evenly over `refill_time` ms.
 */
const diskLimit = {
  bandwidth: { size: 400 * 2 ** 20, refill_time: 1000 },
  ops: { size: 20_000, refill_time: 1000 },
} as const
const netLimit = { bandwidth: { size: 256 * 2 ** 20, refill_time: 1000 } } as const
const entropyLimit = { bandwidth: { size: 65_536, refill_time: 1000 } } as const
/** The console explains a boot that failed; after that the guest may write 4 KiB every ten minutes. */
const consoleLimit = { size: 4096, one_time_burst: 262_144, refill_time: 600_000 } as const

/**
 * The guest kernel's command line. Firecracker has no power-off: `reboot=k` (the keyboard controller) is what ends it, and
 * `mote.off` tells our init so.
 */
export function kernelArgs({ base, scratch, config }: DiskSerials): string {
  return [
    commonKernelArgs,
    'reboot=k pci=off i8042.noaux i8042.nomux i8042.dumbkbd no_timer_check tsc=reliable',
    `mote.off=reboot mote.base=${base} mote.scratch=${scratch} mote.config=${config}`,
  ].join(' ')
}

/** Everything from an empty Firecracker to a running guest, in an order that it accepts. */
export function bootCalls(plan: BootPlan): ApiCall[] {
  const put = (path: string, body: unknown): ApiCall => ({ method: 'PUT', path, body })
  return [
    consoleCall(),
    put('/machine-config', { vcpu_count: plan.vcpus, mem_size_mib: plan.memoryMib, smt: false }),
    put('/boot-source', {
      kernel_image_path: files.kernel,
      initrd_path: files.initrd,
      boot_args: kernelArgs(plan.serials),
    }),
    drive('base', files.base, true),
    drive('scratch', files.scratch, false),
    drive('config', files.config, true),
    ...slots.map(({ id, readOnly }) => drive(id, emptyDrive, readOnly)),
    put('/network-interfaces/eth0', {
      ...{ iface_id: 'eth0', host_dev_name: plan.tap, guest_mac: plan.mac },
      ...{ rx_rate_limiter: netLimit, tx_rate_limiter: netLimit },
    }),
    put('/vsock', { guest_cid: guestCid, uds_path: vsockSocket }),
    put('/balloon', {
      ...{ amount_mib: 0, deflate_on_oom: true, stats_polling_interval_s: 1, free_page_reporting: true },
    }),
    put('/entropy', { rate_limiter: entropyLimit }),
    put('/actions', { action_type: 'InstanceStart' }),
  ]
}

/** The smallest that a guest may have; each Firecracker has a socket of its own, so all guests can have the same. */
const guestCid = 3

/** Not a part of snapshots: said again to every process. */
export function consoleCall(): ApiCall {
  return {
    method: 'PUT',
    path: '/serial',
    body: { serial_out_path: consoleFile, rate_limiter: consoleLimit },
  }
}

/** Writeback: a flush of the guest reaches the host's disk; with Unsafe a volume could lose what was promised. */
function drive(id: string, file: string, readOnly: boolean): ApiCall {
  const body = {
    ...{ drive_id: id, path_on_host: file, is_root_device: false, is_read_only: readOnly },
    ...{ cache_type: id === 'scratch' ? 'Unsafe' : 'Writeback', rate_limiter: diskLimit },
  }
  return { method: 'PUT', path: `/drives/${id}`, body }
}

/** The guest stands still after it; the caller lets it run. */
export function loadCall(tap: string): ApiCall {
  return {
    method: 'PUT',
    path: '/snapshot/load',
    body: {
      ...{ snapshot_path: files.state, mem_backend: { backend_type: 'File', backend_path: files.memory } },
      ...{ resume_vm: false, network_overrides: [{ iface_id: 'eth0', host_dev_name: tap }] },
    },
  }
}
