import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../lib/exec.ts'
import { hasProgram } from '../../lib/programs.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { dirPool } from './dir-pool.ts'

const missing = (await hasProgram('qemu-img')) ? '' : ' (skipped: needs qemu-img)'

test.skipIf(missing !== '')(`an encrypted volume can grow without its key${missing}`, { timeout: 60_000 }, async () => {
  await using dir = await testDir()
  const pool = dirPool('safe', join(dir.path, 'pool'), true)
  await pool.create('v1', 16, undefined, 'a key of this test')
  const file = await pool.open('v1', 1)
  const contentMib = async () => {
    const info: unknown = JSON.parse(await run('qemu-img', ['info', '--output', 'json', file]))
    return (info as { 'virtual-size': number })['virtual-size'] / 2 ** 20
  }
  expect(await contentMib()).toBe(16)
  for (const _twice of [1, 2]) await pool.grow('v1', 48)
  await pool.grow('v1', 16)
  expect(await contentMib()).toBe(48)
  expect((await stat(file)).blocks * 512).toBeLessThan(16 * 2 ** 20)
})
