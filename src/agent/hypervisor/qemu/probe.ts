import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { hostTscKhz } from '../../guest/tsc.ts'
import { noLauncher } from '../../launcher/launcher.ts'
import { kernelArgs, machineOf } from './argv.ts'
import { qemuBinary, spawnQemu } from './spawn.ts'
import { type Console, openConsole } from '../console.ts'
import { endProcess } from '../process.ts'
import { cachedProof, untilInitSpeaks } from '../proof.ts'

export interface QemuProof {
  readonly available: boolean
  readonly accel: 'kvm' | 'tcg'
  readonly detail: string
}

const proofLimitMs = 4_000

/** Takes 30 ms, nearly all of it QEMU's libraries. @throws ENOENT when it is not installed */
export async function qemuVersion(): Promise<string> {
  return /version (\S+)/.exec(await run(qemuBinary, ['--version']))?.[1] ?? 'unknown'
}

/**
 * Whether QEMU is here, and whether KVM carries a real guest: a /dev/kvm that opens is not yet one that works, so the
 * guest's kernel is booted once under KVM until our init speaks on the console.
 */
export async function probeQemu(
  cacheDir: string,
  kernel: () => Promise<GuestKernel>,
  signal: AbortSignal,
  versionOf: () => Promise<string> = qemuVersion,
): Promise<QemuProof> {
  try {
    const version = await versionOf()
    const guest = await kernel()
    const kvm = existsSync('/dev/kvm')
      ? await cachedProof(cacheDir, guest.initrd, signal, () => proveKvm(guest, signal))
      : 'there is no /dev/kvm'
    if (kvm === undefined)
      return { available: true, accel: 'kvm', detail: `kvm, QEMU ${version}, Linux ${guest.version}` }
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
    const args = [
      ...['-M', machineOf(guest.devices), '-accel', 'kvm', '-cpu', 'host', '-m', '128'],
      ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
      ...['-kernel', guest.kernel, '-initrd', guest.initrd, '-append', kernelArgs(await hostTscKhz(), guest.devices)],
      ...['-chardev', 'socket,id=console,path=console.sock,server=on,wait=off', '-serial', 'chardev:console'],
    ]
    const qemu = await spawnQemu(noLauncher, { dir, args })
    let console: Console | undefined
    const tail = async () => {
      if (!console?.connected) console = await openConsole(dir)
      return console.tail()
    }
    try {
      return await untilInitSpeaks(tail, qemu.ended, proofLimitMs, signal)
    } finally {
      console?.close()
      await endProcess({ process: qemu.identity })
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
