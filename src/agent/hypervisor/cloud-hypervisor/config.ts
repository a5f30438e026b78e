import { commonKernelArgs } from '../kernel-args.ts'
import { cellFiles, driveFile } from '../vmm/cell.ts'
import type { GuestPlan } from '../vmm/platform.ts'
import { consoleSocket, vsockSocket } from './cell.ts'

/** A snapshot's, as Cloud Hypervisor names them. */
export const stateFiles = { memory: 'memory-ranges', state: 'state.json', settings: 'config.json' } as const

/**
 * What one VM may take from all others on the host. After a bucket has run empty it is refilled every 100 ms at the
 * earliest, so the periods are well above that.
 */
const diskLimit = {
  bandwidth: { size: 400 * 2 ** 20, refill_time: 1000 },
  ops: { size: 20_000, refill_time: 1000 },
} as const
const netLimit = { bandwidth: { size: 256 * 2 ** 20, refill_time: 1000 } } as const

/** The smallest that a guest may have; each VMM has a socket of its own, so all guests can have the same. */
const guestCid = 3

/** The body of `vm.create` (`VmConfig`). Disks are found by serial, devices are named so that they can be taken away. */
export function vmConfig({ vcpus, memoryMib, tap, mac, drives }: GuestPlan): Readonly<Record<string, unknown>> {
  return {
    // A guest has no guests of its own.
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

/** The image type is said: one that is found out by looking could be chosen by what a guest writes. */
export function diskConfig({ id, serial, path, readOnly }: DiskInput): Readonly<Record<string, unknown>> {
  return { id, serial, path, readonly: readOnly, image_type: 'Raw', rate_limiter_config: diskLimit }
}

/** Its power-off ends the VMM, and so does that of our init. */
export const kernelArgs = `${commonKernelArgs} reboot=k no_timer_check tsc=reliable`

/** A kernel and our init without a device. */
export const proofConfig = {
  payload: { kernel: cellFiles.kernel, initramfs: cellFiles.initrd, cmdline: kernelArgs },
  memory: { size: 128 * 2 ** 20 },
  serial: { mode: 'Socket', socket: consoleSocket },
  console: { mode: 'Off' },
} as const

/**
 * A saved VM's settings for a host where its tap has another name. Its initramfs was read at boot: Cloud Hypervisor would
 * open the file again, and end where there is none. Replaced in the text: numbers in it may have more
 * digits than JavaScript keeps. The host's end of the tap is not the VMM's to configure.
 */
export function settingsHere(settings: string, tap: string): string {
  return settings
    .replace(/"tap"\s*:\s*"[^"]*"/g, `"tap":${JSON.stringify(tap)}`)
    .replace(/"initramfs"\s*:\s*"[^"]*"/g, '"initramfs":null')
    .replace(/"host_mac"\s*:\s*"[^"]*"/g, '"host_mac":null')
}
