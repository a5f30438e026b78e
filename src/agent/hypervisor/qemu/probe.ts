import { constants, existsSync } from 'node:fs'
import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasCode } from '../../../lib/files.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import { hostTscKhz } from '../../guest/tsc.ts'
import { noLauncher } from '../../launcher/launcher.ts'
import { kernelArgs, machineOf } from './argv.ts'
import { inspectQemu, type QemuProgram, untestedQemu } from './program.ts'
import { spawnQemu } from './spawn.ts'
import { type Console, openConsole } from '../console.ts'
import { endProcess } from '../process.ts'
import { cachedPass, cachedProof, untilInitSpeaks } from '../proof.ts'
import { silentAfterMs } from '../silent-guest.ts'

export interface QemuProof {
  readonly available: boolean
  readonly accel: 'kvm' | 'tcg'
  readonly detail: string
}

/** Timeout of the test boot with KVM. If KVM works, the kernel boots in 0.3 s; otherwise it often hangs. */
const kvmLimitMs = 4_000

/**
 * Checks whether QEMU is installed, and selects KVM or emulation. KVM may fail even if /dev/kvm can be opened, so a
 * test boot runs the guest's kernel until Mote's init writes to the console.
 */
export async function probeQemu(
  cacheDir: string,
  kernel: () => Promise<GuestKernel>,
  signal: AbortSignal,
  programOf: () => Promise<QemuProgram> = inspectQemu,
): Promise<QemuProof> {
  try {
    const { version } = await programOf()
    const guest = await kernel()
    const untested = untestedQemu(version)
    const about = `QEMU ${version}${untested === undefined ? '' : ` (${untested})`}, Linux ${guest.version}`
    const key = `${guest.initrd} ${guest.kernel} ${version}`
    const kvm = await whyNoKvm(() =>
      cachedProof(cacheDir, key, signal, () =>
        proveBoot(guest, 'kvm', kvmLimitMs, signal).catch(error => `the KVM test boot failed: ${messageOf(error)}`),
      ),
    )
    if (kvm === undefined) return { available: true, accel: 'kvm', detail: `kvm, ${about}` }
    const [why] = kvm.split('\n')
    const tcg = await cachedPass(cacheDir, `tcg ${key}`, () => proveBoot(guest, 'tcg', silentAfterMs, signal))
    signal.throwIfAborted()
    // QEMU stays available if the test boot with emulation fails, because a busy host may be too slow for that test.
    const doubt = tcg === undefined ? '' : `; emulation may not work: ${tcg}`
    return { available: true, accel: 'tcg', detail: `tcg (${why}), ${about}${doubt}` }
  } catch (error) {
    if (signal.aborted) throw error
    const detail = hasCode(error, 'ENOENT') ? 'install qemu-system-x86' : messageOf(error)
    return { available: false, accel: 'tcg', detail }
  }
}

/** Checks /dev/kvm and then runs the test boot. @returns undefined if KVM works, otherwise the reason */
async function whyNoKvm(prove: () => Promise<string | undefined>): Promise<string | undefined> {
  if (!existsSync('/dev/kvm')) return '/dev/kvm does not exist'
  const usable = await access('/dev/kvm', constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  )
  return usable ? prove() : 'this user may not open /dev/kvm: add the user to the group that owns the device'
}

/**
 * Boots the guest's kernel without disks.
 * @returns undefined if Mote's init wrote to the console, otherwise the reason.
 * @throws Error if QEMU does not start
 */
async function proveBoot(
  guest: GuestKernel,
  accel: 'kvm' | 'tcg',
  limitMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-proof-'))
  try {
    const append = `${kernelArgs(await hostTscKhz(), guest.devices)} mote.proof=1`
    const args = [
      ...['-M', machineOf(guest.devices), '-accel', accel, '-cpu', accel === 'kvm' ? 'host' : 'max', '-m', '128'],
      ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
      ...['-kernel', guest.kernel, '-initrd', guest.initrd, '-append', append],
      ...['-chardev', 'socket,id=console,path=console.sock,server=on,wait=off', '-serial', 'chardev:console'],
    ]
    const qemu = await spawnQemu(noLauncher, { dir, args })
    let console: Console | undefined
    const tail = async () => {
      if (!console?.connected) console = await openConsole(dir)
      return console.tail()
    }
    try {
      return await Promise.race([untilInitSpeaks(tail, qemu.ended, limitMs, signal), qemu.ended])
    } finally {
      console?.close()
      await endProcess({ process: qemu.identity })
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
