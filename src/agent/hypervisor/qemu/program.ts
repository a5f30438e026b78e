/** The QEMU of this host: the only place that knows how its options differ between versions. */
import { run } from '../../../lib/exec.ts'
import { ageOf } from '../vmm/version.ts'
import { qemuBinary } from './spawn.ts'

export interface QemuProgram {
  /** Such as `7.2.22`. */
  readonly version: string
  /**
   * How it is asked to give its rights up: `-runas uid:gid`, or `-run-with user=uid:gid` (since 9.1; the only one since 10.0).
   */
  readonly userOption: 'runas' | 'run-with'
  /** Since 8.1 it leaves shared memory out of the states that it writes only if that is a file with a name. */
  readonly memoryNeedsName: boolean
}

const memoryNeedsNameSince = '8.1'

/** The versions that the test suite has run on: Debian 12 and Debian 13. */
export const testedQemu = { oldest: '7.2', newest: '10.0' } as const

/** Takes 30 ms, nearly all of it QEMU's libraries. @throws ENOENT when it is not installed; Error without what Mote needs */
export async function inspectQemu(): Promise<QemuProgram> {
  const [version, help, runningVms] = await Promise.all([
    run(qemuBinary, ['--version']),
    run(qemuBinary, ['-help']),
    run(qemuBinary, ['-M', 'help']),
  ])
  return qemuProgramFrom(version, help, runningVms)
}

/** Pure half of `inspectQemu`. */
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

/** Undefined when the tests have run on this version, otherwise a sentence about it. */
export function untestedQemu(version: string): string | undefined {
  const { oldest, newest } = testedQemu
  if (ageOf(version, oldest) === 'older') return `older than ${oldest}, the oldest version that Mote is tested with`
  if (ageOf(version, newest) === 'newer') return `newer than ${newest}, the newest version that Mote is tested with`
  return undefined
}

export function userArgs({ userOption }: QemuProgram, { uid, gid }: { readonly uid: number; readonly gid: number }) {
  return userOption === 'run-with' ? ['-run-with', `user=${uid}:${gid}`] : ['-runas', `${uid}:${gid}`]
}
