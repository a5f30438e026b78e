/** The QEMU program of this host. Only this file handles option differences between QEMU versions. */
import { run } from '../../../lib/exec.ts'
import { ageOf } from '../vmm/version.ts'
import { qemuBinary } from './spawn.ts'

export interface QemuProgram {
  /** Version of QEMU, such as `7.2.22`. */
  readonly version: string
  /**
   * The option that drops privileges: `-runas uid:gid`, or `-run-with user=uid:gid` (since 9.1; the only one since
   * 10.0).
   */
  readonly userOption: 'runas' | 'run-with'
  /** Since 8.1, QEMU omits shared memory from a saved state only if the memory is a named file. */
  readonly memoryNeedsName: boolean
}

const memoryNeedsNameSince = '8.1'

/** The versions that the test suite has run on: Debian 12 and Debian 13. */
export const testedQemu = { oldest: '7.2', newest: '10.0' } as const

/**
 * Reads version and options of the installed QEMU. Takes 30 ms, mostly to load QEMU's libraries.
 * @throws ENOENT if QEMU is not installed; Error if it lacks the microvm machine
 */
export async function inspectQemu(): Promise<QemuProgram> {
  const [version, help, runningVms] = await Promise.all([
    run(qemuBinary, ['--version']),
    run(qemuBinary, ['-help']),
    run(qemuBinary, ['-M', 'help']),
  ])
  return qemuProgramFrom(version, help, runningVms)
}

/** Parses what QEMU prints for `--version`, `-help` and `-M help`. Pure. */
export function qemuProgramFrom(versionText: string, help: string, runningVms: string): QemuProgram {
  const version = /version (\S+)/.exec(versionText)?.[1] ?? 'unknown'
  if (!/^microvm\s/m.test(runningVms))
    throw new Error(
      `QEMU ${version} is built without the microvm machine: install your distribution's full qemu-system-x86`,
    )
  return {
    version,
    userOption: /^-run-with .*\buser=/m.test(help) || !/^-runas\s/m.test(help) ? 'run-with' : 'runas',
    memoryNeedsName: ageOf(version, memoryNeedsNameSince) !== 'older',
  }
}

/** Returns undefined if the tests have run with this version of QEMU, otherwise a warning. */
export function untestedQemu(version: string): string | undefined {
  const { oldest, newest } = testedQemu
  if (ageOf(version, oldest) === 'older') return `older than ${oldest}, the oldest version that Mote is tested with`
  if (ageOf(version, newest) === 'newer') return `newer than ${newest}, the newest version that Mote is tested with`
  return undefined
}

export function userArgs({ userOption }: QemuProgram, { uid, gid }: { readonly uid: number; readonly gid: number }) {
  return userOption === 'run-with' ? ['-run-with', `user=${uid}:${gid}`] : ['-runas', `${uid}:${gid}`]
}
