import { commonKernelArgs } from '../kernel-args.ts'
import { cellFiles, driveFile } from '../vmm/cell.ts'
import type { GuestPlan } from '../vmm/platform.ts'
import type { VmmMethod } from '../vmm-http.ts'
import { consoleFile, emptyDrive, vsockSocket } from './cell.ts'

/** One call of Firecracker's API (src/firecracker/swagger/firecracker.yaml, v1.16). */
export interface ApiCall {
  readonly method: VmmMethod
  readonly path: string
  readonly body: unknown
}

/**
 * Placeholder drives, to which volumes are attached at run time. A drive's read-only flag cannot change, so there are
 * writable and read-only ones.
 */
export const slots = [
  ...['rw0', 'rw1', 'rw2', 'rw3', 'rw4', 'rw5'].map(id => ({ id, readOnly: false })),
  ...['ro0', 'ro1'].map(id => ({ id, readOnly: true })),
] as const

/** Names of the files with a VM's saved memory and state, in its jail directory and in snapshots. */
export const stateFiles = { memory: 'memory', state: 'state' } as const

/** Maps the serial by which a guest looks for a disk to the serial that Firecracker assigned. */
export type DiskSerials = Readonly<Record<string, string>>

export interface BootPlan extends GuestPlan {
  readonly serials: DiskSerials
}

/**
 * Rate limits for the disks, network and entropy of one VM, far above the needs of a web app. Excess requests wait.
 * Tokens are refilled evenly over `refill_time` ms.
 */
const diskLimit = {
  bandwidth: { size: 400 * 2 ** 20, refill_time: 1000 },
  ops: { size: 20_000, refill_time: 1000 },
} as const
const netLimit = { bandwidth: { size: 256 * 2 ** 20, refill_time: 1000 } } as const
const entropyLimit = { bandwidth: { size: 65_536, refill_time: 1000 } } as const
/** Limit on console output. A burst of 256 KiB is enough to explain a failed boot; then 4 KiB per 10 minutes pass. */
const consoleLimit = { size: 4096, one_time_burst: 262_144, refill_time: 600_000 } as const

/**
 * Returns the guest kernel's command line. Firecracker has no power-off. A reboot through the keyboard controller
 * (`reboot=k`) ends Firecracker, and `mote.off=reboot` makes Mote's init reboot.
 */
export function kernelArgs(serials: DiskSerials): string {
  return [
    commonKernelArgs,
    'reboot=k pci=off i8042.noaux i8042.nomux i8042.dumbkbd no_timer_check tsc=reliable',
    'mote.off=reboot',
    ...Object.entries(serials).map(([wanted, given]) => `mote.${wanted}=${given}`),
  ].join(' ')
}

/**
 * Returns all calls from the start of Firecracker to a running guest, in an order that Firecracker accepts. A VM with
 * drives has no placeholder drives for volumes, because there are interrupts for only 19 devices.
 */
export function bootCalls(plan: BootPlan): ApiCall[] {
  const others =
    plan.drives.length > 0
      ? plan.drives.map(({ readOnly }, index) => drive(`drive${index}`, driveFile(index), readOnly))
      : slots.map(({ id, readOnly }) => drive(id, emptyDrive, readOnly))
  return [
    consoleCall(),
    put('/machine-config', { vcpu_count: plan.vcpus, mem_size_mib: plan.memoryMib, smt: false }),
    put('/boot-source', {
      kernel_image_path: cellFiles.kernel,
      initrd_path: cellFiles.initrd,
      boot_args: kernelArgs(plan.serials),
    }),
    drive('base', cellFiles.base, true),
    drive('scratch', cellFiles.scratch, false),
    drive('config', cellFiles.config, true),
    ...others,
    put('/network-interfaces/eth0', {
      iface_id: 'eth0',
      host_dev_name: plan.tap,
      guest_mac: plan.mac,
      rx_rate_limiter: netLimit,
      tx_rate_limiter: netLimit,
    }),
    put('/vsock', { guest_cid: guestCid, uds_path: vsockSocket }),
    put('/balloon', {
      amount_mib: 0,
      deflate_on_oom: true,
      stats_polling_interval_s: 1,
      free_page_reporting: true,
    }),
    put('/entropy', { rate_limiter: entropyLimit }),
    put('/actions', { action_type: 'InstanceStart' }),
  ]
}

const put = (path: string, body: unknown): ApiCall => ({ method: 'PUT', path, body })

/** Returns the calls of a test boot: the guest's kernel and Mote's init, without devices. */
export function proofCalls(): ApiCall[] {
  const { kernel, initrd } = cellFiles
  return [
    consoleCall(),
    put('/machine-config', { vcpu_count: 1, mem_size_mib: 128 }),
    put('/boot-source', {
      kernel_image_path: kernel,
      initrd_path: initrd,
      boot_args: kernelArgs({ base: '-', scratch: '-', config: '-' }),
    }),
    put('/actions', { action_type: 'InstanceStart' }),
  ]
}

/** The lowest valid vsock CID. All guests can use it, because each Firecracker has its own socket. */
const guestCid = 3

/** Returns the call that configures the console. Snapshots do not include the console, so every process needs it. */
export function consoleCall(): ApiCall {
  return {
    method: 'PUT',
    path: '/serial',
    body: { serial_out_path: consoleFile, rate_limiter: consoleLimit },
  }
}

/**
 * Returns the call that adds a drive. With the cache type Writeback, a guest's flush reaches the host's disk. With
 * Unsafe, a volume could lose writes that were acknowledged to the guest.
 */
function drive(id: string, file: string, readOnly: boolean): ApiCall {
  const body = {
    drive_id: id,
    path_on_host: file,
    is_root_device: false,
    is_read_only: readOnly,
    cache_type: id === 'scratch' ? 'Unsafe' : 'Writeback',
    rate_limiter: diskLimit,
  }
  return { method: 'PUT', path: `/drives/${id}`, body }
}

/** Returns the call that loads a snapshot. The guest stays paused until the caller resumes it. */
export function loadCall(tap: string): ApiCall {
  return {
    method: 'PUT',
    path: '/snapshot/load',
    body: {
      snapshot_path: stateFiles.state,
      mem_backend: { backend_type: 'File', backend_path: stateFiles.memory },
      resume_vm: false,
      network_overrides: [{ iface_id: 'eth0', host_dev_name: tap }],
    },
  }
}
