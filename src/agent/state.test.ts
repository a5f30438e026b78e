import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { run } from '../lib/exec.ts'
import { bind, mountedBelow, unbindBelow } from './hypervisor/bind.ts'
import { openStateDir } from './state.ts'
import { testDir } from '../../test/support/agent/agent.ts'
import { newRecord } from './vm/record.ts'

test.skipIf(process.getuid?.() !== 0)(
  'a VM directory that cannot be removed is reported, and retried at the next removal and at startup (needs root)',
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
    // A file system that contains the working directory of a process cannot be unmounted.
    const busy = join(state.vmDir('vm-1'), 'busy')
    await run('mount', ['-t', 'tmpfs', 'none', busy])
    const user = spawn('sleep', ['600'], { cwd: busy })
    const ended = once(user, 'exit')
    await using _unmounted = {
      [Symbol.asyncDispose]: async () => {
        user.kill('SIGKILL')
        await ended
        await unbindBelow(dir.path)
      },
    }
    await state.bury('vm-1', 1)
    await until(() => errors.length === 1, { what: 'the first error' })
    expect(String(errors[0])).toContain('busy')
    const [name = ''] = await left()

    await (await open()).prune([])
    expect([errors.length, await left()], 'the agent starts nevertheless').toEqual([2, [name]])
    user.kill('SIGKILL')
    await ended
    await make('vm-2')
    await state.bury('vm-2', 1)
    await until(async () => (await left()).length === 0, { what: 'both directories to be removed' })
    expect([errors.length, await state.buriedGeneration('vm-1')]).toEqual([2, 1])
  },
)

test.skipIf(process.getuid?.() !== 0)(
  "a volume that is still mounted in a removed VM's directory is unmounted and keeps its content (needs root)",
  async () => {
    await using dir = await testDir()
    const link = join(dir.path, 'link')
    await mkdir(join(dir.path, 'data'))
    await symlink('data', link)
    await using _unmounted = { [Symbol.asyncDispose]: () => unbindBelow(dir.path) }
    const errors: unknown[] = []
    const state = await openStateDir(link, null, error => errors.push(error))
    const volume = join(dir.path, 'volume')
    await writeFile(volume, 'data')
    const show = async (vmId: string) => {
      await mkdir(state.vmDir(vmId), { recursive: true })
      await bind(volume, join(state.vmDir(vmId), 'v-1'))
    }
    await show('vm-1')
    await state.bury('vm-1', 1)
    await state.settled()
    await show('rubbish')
    await state.prune(['rubbish'])
    expect(await mountedBelow(dir.path)).toEqual([])
    expect([await readdir(join(link, 'vms')), await readdir(join(link, 'leaving')), errors]).toEqual([[], [], []])
    expect(await readFile(volume, 'utf8')).toBe('data')
  },
)

test('a VM record that could not be read back is not written, because the next agent would forget the VM', async () => {
  await using dir = await testDir()
  const state = await openStateDir(dir.path, null, () => undefined)
  await mkdir(state.vmDir('vm-1'), { recursive: true })
  await state.saveRecord('vm-1', { ...newRecord, exitCode: 1 })
  await expect(state.saveRecord('vm-1', { ...newRecord, exitCode: 1.5 })).rejects.toThrow(/BUG/)
})
