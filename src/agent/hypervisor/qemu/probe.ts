import { existsSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { hasCode, readIfExists, writeFileAtomic } from '../../../lib/files.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { hostTscKhz } from '../../guest/tsc.ts'
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
export async function probeQemu(
  cacheDir: string,
  kernel: () => Promise<GuestKernel>,
  signal: AbortSignal,
): Promise<QemuProof> {
  try {
    const version = /version (\S+)/.exec(await run(qemuBinary, ['--version'], { signal }))?.[1] ?? 'unknown'
    const guest = await kernel()
    const kvm = existsSync('/dev/kvm') ? await cachedProof(cacheDir, guest, signal) : 'there is no /dev/kvm'
    if (kvm === undefined)
      return { available: true, accel: 'kvm', detail: `kvm, QEMU ${version}, Linux ${guest.version}` }
    return { available: true, accel: 'tcg', detail: `tcg (${kvm}), QEMU ${version}, Linux ${guest.version}` }
  } catch (error) {
    if (signal.aborted) throw error
    const detail = hasCode(error, 'ENOENT') ? 'install qemu-system-x86' : String(error)
    return { available: false, accel: 'tcg', detail }
  }
}

/** One proof for each boot of the machine and guest kernel: nothing else changes its outcome, and it can take seconds. */
async function cachedProof(cacheDir: string, guest: GuestKernel, signal: AbortSignal): Promise<string | undefined> {
  const bootId = await readIfExists('/proc/sys/kernel/random/boot_id')
  const key = createHash('sha256').update(`${bootId} ${process.getuid?.()} ${guest.initrd}`).digest('hex').slice(0, 16)
  const file = join(cacheDir, 'kvm-proof', key)
  const known = await readIfExists(file)
  if (known !== undefined) return known || undefined
  const reason = await proveKvm(guest, signal)
  signal.throwIfAborted()
  await mkdir(dirname(file), { recursive: true })
  await writeFileAtomic(file, reason ?? '')
  return reason
}

/** @returns undefined when KVM works, otherwise why not. */
async function proveKvm(guest: GuestKernel, signal: AbortSignal): Promise<string | undefined> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-kvm-'))
  try {
    const qemu = await spawnQemu(dir, [
      ...['-M', 'microvm,acpi=on,pit=off,pic=off,x-option-roms=off', '-accel', 'kvm', '-cpu', 'host', '-m', '128'],
      ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
      ...['-kernel', guest.kernel, '-initrd', guest.initrd, '-append', kernelArgs(await hostTscKhz())],
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
