import { commonKernelArgs } from '../kernel-args.ts'
import { cellFiles, driveFile } from '../vmm/cell.ts'
import type { GuestPlan } from '../vmm/platform.ts'
import { consoleSocket, vsockSocket } from './cell.ts'

/** Files of a snapshot, with Cloud Hypervisor's names. */
export const stateFiles = { memory: 'memory-ranges', state: 'state.json', settings: 'config.json' } as const

/**
 * I/O limits of one VM, as token buckets. Cloud Hypervisor refills an empty bucket every 100 ms at the earliest, so the
 * refill times are much longer.
 */
const diskLimit = {
  bandwidth: { size: 400 * 2 ** 20, refill_time: 1000 },
  ops: { size: 20_000, refill_time: 1000 },
} as const
const netLimit = { bandwidth: { size: 256 * 2 ** 20, refill_time: 1000 } } as const

/** The lowest valid vsock CID. All guests can use it, because each VMM has its own socket. */
const guestCid = 3

/**
 * The body of `vm.create` (`VmConfig`). The guest finds disks by serial; devices have ids so that they can be removed.
 */
export function vmConfig({ vcpus, memoryMib, tap, mac, drives }: GuestPlan): Readonly<Record<string, unknown>> {
  return {
    // Guests cannot use nested virtualization.
    cpus: { boot_vcpus: vcpus, max_vcpus: vcpus, nested: false },
    memory: { size: memoryMib * 2 ** 20 },
    payload: { kernel: cellFiles.kernel, initramfs: cellFiles.initrd, cmdline: kernelArgs },
    disks: [
      diskConfig({ id: 'base', serial: 'base', path: cellFiles.base, readOnly: true }),
      diskConfig({ id: 'scratch', serial: 'scratch', path: cellFiles.scratch, readOnly: false }),
      diskConfig({ id: 'config', serial: 'config', path: cellFiles.config, readOnly: true }),
      ...drives.map(({ serial, readOnly }, index) =>
        diskConfig({ id: serial, serial, path: driveFile(index), readOnly }),
      ),
    ],
    net: [{ id: 'eth0', tap, mac, rate_limiter_config: netLimit }],
    rng: { src: '/dev/urandom' },
    balloon: { size: 0, deflate_on_oom: true, free_page_reporting: true },
    vsock: { id: 'vsock0', cid: guestCid, socket: vsockSocket },
    serial: { mode: 'Socket', socket: consoleSocket },
    console: { mode: 'Off' },
  }
}

export interface DiskInput {
  readonly id: string
  readonly serial: string
  readonly path: string
  readonly readOnly: boolean
}

/** Returns a disk's settings. The image type is explicit: if detected, a guest could change it by writing a header. */
export function diskConfig({ id, serial, path, readOnly }: DiskInput): Readonly<Record<string, unknown>> {
  return { id, serial, path, readonly: readOnly, image_type: 'Raw', rate_limiter_config: diskLimit }
}

/** Arguments of the guest's kernel. The guest needs no `mote.off=reboot`: the VMM exits when the guest powers off. */
export const kernelArgs = `${commonKernelArgs} reboot=k no_timer_check tsc=reliable`

/** The VM settings for a test boot: the guest's kernel and Mote's init, without devices. */
export const proofConfig = {
  payload: { kernel: cellFiles.kernel, initramfs: cellFiles.initrd, cmdline: kernelArgs },
  memory: { size: 128 * 2 ** 20 },
  serial: { mode: 'Socket', socket: consoleSocket },
  console: { mode: 'Off' },
} as const

/**
 * Adapts a saved VM's settings to this host's tap. Removes the initramfs, because Cloud Hypervisor would open the file
 * again and exit if it is missing, and the host's MAC, because the VMM must not configure the host's end of the tap.
 * Replaces text instead of parsing JSON, because numbers may have more digits than JavaScript can represent.
 */
export function settingsHere(settings: string, tap: string): string {
  return settings
    .replace(/"tap"\s*:\s*"[^"]*"/g, `"tap":${JSON.stringify(tap)}`)
    .replace(/"initramfs"\s*:\s*"[^"]*"/g, '"initramfs":null')
    .replace(/"host_mac"\s*:\s*"[^"]*"/g, '"host_mac":null')
}
