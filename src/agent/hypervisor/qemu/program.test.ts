import { expect, test } from 'vitest'
import { qemuProgramFrom, testedQemu, untestedQemu, userArgs } from './program.ts'

const runningVms = 'Supported machines are:\nmicrovm              microvm (i386)\npc   Standard PC\n'
const before =
  '-runas user     change to user id user just before starting the VM\n                user can be numeric uid:gid instead\n'
const both = `${before}-run-with [async-teardown=on|off][,chroot=dir][user=username|uid:gid]\n`
const since = '-run-with [async-teardown=on|off][,chroot=dir][user=username|uid:gid]\n'
/** QEMU may wrap its help text within an option's description, as in this one. */
const wrapped = '-run-with [async-teardown=on|off][,chroot=dir]\n          [,user=username|uid:gid]\n'
const chrootOnly = `${before}-run-with [async-teardown=on|off][,chroot=dir]\n`

test.each([
  ['7.2.22', before, ['-runas', '7:8'], false],
  ['8.0.5', chrootOnly, ['-runas', '7:8'], false],
  ['8.1.0', chrootOnly, ['-runas', '7:8'], true],
  ['9.0.2', chrootOnly, ['-runas', '7:8'], true],
  ['9.1.0', both, ['-run-with', 'user=7:8'], true],
  ['10.0.13', since, ['-run-with', 'user=7:8'], true],
  ['11.0.0', wrapped, ['-run-with', 'user=7:8'], true],
])('QEMU %s gets the option for its user that its help text lists', (version, help, args, memoryNeedsName) => {
  const program = qemuProgramFrom(`QEMU emulator version ${version} (Debian 1:${version})\n`, help, runningVms)
  expect(program).toMatchObject({ version, memoryNeedsName })
  expect(userArgs(program, { uid: 7, gid: 8 })).toEqual(args)
})

test('a QEMU without the microvm machine is refused, and the error says what to install', () => {
  expect(() => qemuProgramFrom('QEMU emulator version 8.0.0\n', before, 'pc  Standard PC\n')).toThrow(
    /8\.0\.0 is built without the microvm machine: install/,
  )
})

test('QEMU versions outside the tested range get a warning', () => {
  expect(untestedQemu('7.2.22')).toBeUndefined()
  expect(untestedQemu('10.0.13')).toBeUndefined()
  expect(untestedQemu('6.2.0')).toContain(`older than ${testedQemu.oldest}`)
  expect(untestedQemu('10.1.0')).toContain(`newer than ${testedQemu.newest}`)
})
