import { type DiskLimits, qemuThrottle } from '../../base/disk-limits.ts'
import type { RawDrive } from '../driver.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import type { VmUser } from '../isolation.ts'
import { commonKernelArgs } from '../kernel-args.ts'
import { sharedMemoryFile } from './private-memory.ts'
import { type QemuProgram, userArgs } from './program.ts'

/** How the guest starts: from a kernel, or from a saved or migrated state. */
export type Start =
  | { readonly kind: 'boot'; readonly kernel: string; readonly initrd: string; readonly kernelArgs: string }
  /** `memoryFile` has the guest's memory and is mapped privately. Without it, the state includes the memory. */
  | {
      readonly kind: 'incoming'
      readonly memoryFile?: string
      readonly after: 'run' | 'stay-paused'
      /** Size of QEMU's buffer for translated code, in MiB; default: `bootCodeMib`. */
      readonly codeMib?: number
    }

export interface QemuPlan {
  readonly accel: 'kvm' | 'tcg'
  readonly devices: GuestKernel['devices']
  readonly start: Start
  readonly vcpus: number
  readonly memoryMib: number
  /** True if QEMU omits memory from a saved state only if the memory is a named file (since 8.1). */
  readonly memoryNeedsName: boolean
  readonly base: string
  readonly scratch: string
  readonly config: string
  readonly drives: readonly RawDrive[]
  readonly diskLimits: DiskLimits
  readonly netdev: string
  readonly mac: string
  /**
   * The user to which QEMU drops its privileges after it has opened its files, and the program, whose version
   * determines the name of the option.
   */
  readonly user?: { readonly is: VmUser; readonly program: QemuProgram }
}

/**
 * Returns QEMU's arguments for one VM. Paths of sockets and disks are relative to the VM's directory, which is QEMU's
 * working directory.
 */
export function qemuArgs(plan: QemuPlan): string[] {
  const disk = (id: string, file: string, extra: string, device = '') => [
    ...['-drive', `id=${id},file=${escaped(file)},format=raw,if=none${extra}${throttleOf(plan.diskLimits)}`],
    ...['-device', `virtio-blk-device,drive=${id},serial=${id}${device}`],
  ]
  const port = (id: string, path: string, name: string) => [
    ...['-chardev', `socket,id=${id},path=${path},server=on,wait=off`],
    ...['-device', `virtserialport,chardev=${id},name=${name}`],
  ]
  return [
    ...['-M', `${machineOf(plan.devices)},memory-backend=mem`, '-accel', accelOf(plan)],
    ...['-object', memoryOf(plan)],
    ...['-cpu', plan.accel === 'kvm' ? 'host' : 'max', '-smp', String(plan.vcpus), '-m', memorySize(plan)],
    ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
    ...privilegesOf(plan),
    ...startOf(plan.start),
    ...['-chardev', 'socket,id=console,path=console.sock,server=on,wait=off', '-serial', 'chardev:console'],
    ...disk('base', plan.base, ',readonly=on'),
    // The scratch disk is new at every boot and need not survive a host crash, so its flushes are ignored.
    ...disk(
      'scratch',
      plan.scratch,
      ',discard=unmap,cache=unsafe',
      comesOverTheNetwork(plan.start) ? ',share-rw=on' : '',
    ),
    ...disk('config', plan.config, ',readonly=on'),
    ...plan.drives.flatMap(({ serial, file, readOnly }) =>
      disk(serial, file, readOnly ? ',readonly=on' : ',discard=unmap'),
    ),
    ...['-netdev', plan.netdev, '-device', `virtio-net-device,netdev=n0,mac=${plan.mac}`],
    ...(plan.drives.length > 0 ? [] : optionalDevices),
    ...['-device', 'virtio-serial-device'],
    ...port('log', 'log.sock', 'mote.log'),
    ...port('ctl', 'ctl.sock', 'mote.ctl'),
    ...['-qmp', 'unix:qmp.sock,server=on,wait=off'],
  ]
}

/**
 * Arguments for the memory balloon and for the SCSI bus of volumes. A microvm without ACPI has eight device slots. A
 * build fills them: three disks (base, scratch, config), the network device, the serial device with its ports, and
 * three drives. It needs neither balloon nor volumes.
 */
const optionalDevices = [
  ...['-device', 'virtio-balloon-device,id=balloon0,free-page-reporting=on'],
  ...['-device', 'virtio-scsi-device,id=scsi0'],
]

/**
 * Returns QEMU's machine option. A distribution's kernel finds virtio-mmio devices only through ACPI tables
 * (CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES is off). For the shipped kernel, QEMU lists the devices on the command line,
 * which boots sooner.
 */
export function machineOf(devices: GuestKernel['devices']): string {
  return `microvm,acpi=${devices === 'acpi' ? 'on' : 'off'},pit=off,pic=off,x-option-roms=off`
}

/**
 * Returns QEMU's sandbox options. With a user, `elevateprivileges` must be `allow`, because `deny` also forbids
 * dropping privileges. QEMU cannot regain them, because it may not start programs (`spawn=deny`).
 */
function privilegesOf({ user }: QemuPlan): string[] {
  const elevate = user ? 'allow' : 'deny'
  return [
    ...['-sandbox', `on,obsolete=deny,elevateprivileges=${elevate},spawn=deny,resourcecontrol=deny`],
    ...(user ? userArgs(user.program, user.is) : []),
  ]
}

/** Size of the buffer for translated code under emulation. The code that runs during a boot takes 50 MiB in it. */
const bootCodeMib = 64

function accelOf({ accel, start }: QemuPlan): string {
  const codeMib = start.kind === 'incoming' ? (start.codeMib ?? bootCodeMib) : bootCodeMib
  return accel === 'kvm' ? accel : `tcg,tb-size=${codeMib}`
}

/**
 * The guest's memory, declared as shared: a snapshot reads it through /proc while the guest is paused, and QEMU's saved
 * state contains only devices. It is a memfd, or a file that private-memory.c maps privately.
 */
function memoryOf(plan: QemuPlan): string {
  const { start } = plan
  const size = memorySize(plan)
  if (start.kind === 'boot' || start.memoryFile === undefined)
    return plan.memoryNeedsName
      ? `memory-backend-file,id=mem,size=${size},mem-path=${sharedMemoryFile},share=on`
      : `memory-backend-memfd,id=mem,size=${size},share=on`
  return `memory-backend-file,id=mem,size=${size},mem-path=${escaped(start.memoryFile)},share=on`
}

/**
 * True for a live migration to this host, during which the source writes to the disk through an NBD export. The export
 * still exists for a moment when the guest starts; without `share-rw` it would deny the guest's device write access,
 * and QEMU would abort at the guest's first write.
 */
function comesOverTheNetwork(start: Start): boolean {
  return start.kind === 'incoming' && start.memoryFile === undefined
}

/**
 * Returns the memory size, less two pages under emulation. Until QEMU 9.0, memory whose size is a multiple of 64 pages
 * took a path in `cpu_physical_memory_sync_dirty_bitmap` that did not reset the emulator's TLB. Writes during a live
 * migration could be missing on the target: QEMU reported "VQ ... Guest index inconsistent with Host index", or the
 * guest did not respond (3 of 12 migrations on a busy host).
 */
function memorySize({ accel, memoryMib }: QemuPlan): string {
  return `${memoryMib * 1024 - (accel === 'tcg' ? 8 : 0)}K`
}

function startOf(start: Start): string[] {
  if (start.kind === 'incoming') return ['-incoming', 'defer', ...(start.after === 'run' ? [] : ['-S'])]
  return ['-kernel', start.kernel, '-initrd', start.initrd, '-append', start.kernelArgs]
}

function throttleOf(limits: DiskLimits): string {
  const { bps, bpsMax, iops, iopsMax } = qemuThrottle(limits)
  const bytes = `throttling.bps-total=${bps},throttling.bps-total-max=${bpsMax}`
  return `,${bytes},throttling.iops-total=${iops},throttling.iops-total-max=${iopsMax}`
}

/** Doubles commas, because QEMU's option syntax requires that for commas within a value. */
function escaped(value: string): string {
  return value.replaceAll(',', ',,')
}

/**
 * Returns the guest kernel's command line. `tsc_early_khz` is required: without it, Debian's kernel calibrates the TSC
 * against emulated timers, fails under load and hangs (0 of 10 boots succeeded; with it 10 of 10). `lapic_hz` sets the
 * frequency of the APIC timer, which counts nanoseconds in QEMU and KVM, for the same reason:
 * guest/kernel-patches/0001-lapic-hz.patch.
 */
export function kernelArgs(tscKhz: number, devices: GuestKernel['devices']): string {
  // Without ACPI the guest cannot power off. It reboots instead, which ends QEMU (`-no-reboot`).
  const end = devices === 'acpi' ? '' : 'acpi=off mote.off=reboot '
  const clocks = `tsc_early_khz=${tscKhz} tsc=reliable lapic_hz=1000000000 no_timer_check`
  return [commonKernelArgs, `${end}reboot=t pci=off ${clocks}`].join(' ')
}
