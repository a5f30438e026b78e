import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { run } from '../lib/exec.ts'
import { openStateDir } from './state.ts'
import { testDir } from './testing.ts'
import { newRecord } from './vm/record.ts'

test.skipIf(process.getuid?.() !== 0)(
  'a directory that cannot be removed is told, and tried again with the next VM that goes and at the start (needs root)',
  async () => {
    await using dir = await testDir()
    const errors: unknown[] = []
    const open = () => openStateDir(dir.path, null, error => errors.push(error))
    const state = await open()
    const make = async (vmId: string) => {
      await mkdir(join(state.vmDir(vmId), 'busy'), { recursive: true })
      await writeFile(join(state.vmDir(vmId), 'record.json'), '{}')
    }
    const left = () => readdir(join(dir.path, 'leaving'))
    await make('vm-1')
    // Of a directory that something is mounted on, the kernel says EBUSY.
    await run('mount', ['-t', 'tmpfs', 'none', join(state.vmDir('vm-1'), 'busy')])
    const unmount = async () => {
      for (const name of await left()) await run('umount', ['-q', join(dir.path, 'leaving', name, 'busy')])
    }
    await using _mounted = { [Symbol.asyncDispose]: () => unmount().catch(() => undefined) }
    await state.bury('vm-1', 1, [])
    await until(() => errors.length === 1, { what: 'the first error' })
    expect(String(errors[0])).toContain('EBUSY')
    const [name = ''] = await left()

    await (await open()).prune([])
    expect([errors.length, await left()], 'the agent starts all the same').toEqual([2, [name]])
    await unmount()
    await make('vm-2')
    await state.bury('vm-2', 1, [])
    await until(async () => (await left()).length === 0, { what: 'both to go' })
    expect([errors.length, await state.buriedGeneration('vm-1')]).toEqual([2, 1])
  },
)

test('a record that could not be read again is not written: the VM that it names would be forgotten', async () => {
  await using dir = await testDir()
  const state = await openStateDir(dir.path, null, () => undefined)
  await mkdir(state.vmDir('vm-1'), { recursive: true })
  await state.saveRecord('vm-1', { ...newRecord, exitCode: 1 })
  await expect(state.saveRecord('vm-1', { ...newRecord, exitCode: 1.5 })).rejects.toThrow(/BUG/)
})
