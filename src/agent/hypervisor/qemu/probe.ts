import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { kernelArgs } from './argv.ts'
import { qemuBinary, spawnQemu } from './spawn.ts'
import { openConsole } from './console.ts'

export interface QemuProof {
  readonly available: boolean
  readonly accel: 'kvm' | 'tcg'
  readonly detail: string
}

const proofLimitMs = 4_000

/**
 * Whether QEMU is here, and whether KVM carries a real guest: a /dev/kvm that opens is not yet one that works, so the
 * guest's kernel is booted once under KVM until our init speaks on the console.
 */
export async function probeQemu(kernel: () => Promise<GuestKernel>, signal: AbortSignal): Promise<QemuProof> {
  try {
    const version = /version (\S+)/.exec(await run(qemuBinary, ['--version'], { signal }))?.[1] ?? 'unknown'
    const guest = await kernel()
    const kvm = existsSync('/dev/kvm') ? await proveKvm(guest, signal) : 'there is no /dev/kvm'
    if (kvm === undefined) return { available: true, accel: 'kvm', detail: `kvm, QEMU ${version}, Linux ${guest.version}` }
    return { available: true, accel: 'tcg', detail: `tcg (${kvm}), QEMU ${version}, Linux ${guest.version}` }
  } catch (error) {
    if (signal.aborted) throw error
    const detail = hasCode(error, 'ENOENT') ? 'install qemu-system-x86' : String(error)
    return { available: false, accel: 'tcg', detail }
  }
}

/** @returns undefined when KVM works, otherwise why not. */
async function proveKvm(guest: GuestKernel, signal: AbortSignal): Promise<string | undefined> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-kvm-'))
  try {
    const qemu = await spawnQemu(dir, [
      ...['-M', 'microvm,acpi=on,pit=off,pic=off,x-option-roms=off', '-accel', 'kvm', '-cpu', 'host', '-m', '128'],
      ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
      ...['-kernel', guest.kernel, '-initrd', guest.initrd, '-append', kernelArgs(tscKhz())],
      ...['-chardev', 'socket,id=console,path=console.sock,server=on,wait=off', '-serial', 'chardev:console'],
    ])
    try {
      return await untilInitSpeaks(dir, qemu.ended, signal)
    } finally {
      try {
        process.kill(qemu.identity.pid, 'SIGKILL')
      } catch {
        // it ended by itself
      }
      await qemu.ended.catch(() => undefined)
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Without disks our init stops with a message of its own: that line proves kernel, memory and user space. */
async function untilInitSpeaks(dir: string, ended: Promise<never>, signal: AbortSignal): Promise<string | undefined> {
  const deadline = performance.now() + proofLimitMs
  const end = ended.then(
    () => undefined,
    (error: Error) => error.message,
  )
  let console = await openConsole(dir)
  try {
    while (performance.now() < deadline && !signal.aborted) {
      if (console.tail().includes('mote-init:')) return undefined
      const over = await Promise.race([end, new Promise<undefined>(resolve => setTimeout(resolve, 10, undefined))])
      if (over !== undefined) return 'the KVM proof boot failed'
      if (!console.connected) console = await openConsole(dir)
    }
    return `the KVM proof boot did not finish in ${proofLimitMs} ms`
  } finally {
    console.close()
  }
}

/** The host's TSC frequency for `tsc_early_khz`, from /proc/cpuinfo; it only needs to be near the truth. */
export function tscKhz(): number {
  const mhz = /^cpu MHz\s*:\s*([\d.]+)/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]
  return mhz === undefined ? 2_000_000 : Math.round(Number(mhz) * 1000)
}
