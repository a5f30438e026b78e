import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { run } from '../../lib/exec.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { putBehind, unpackBehind } from './more-archives.ts'

it('a guest unpacks each archive that was appended to one disk', async () => {
  await using dir = await testDir()
  const at = (name: string) => join(dir.path, name)
  const archive = async (name: string, bytes: number) => {
    await mkdir(at('files'))
    await writeFile(at(join('files', name)), name.repeat(bytes / name.length))
    await run('tar', ['-C', at('files'), '-cf', at(`${name}.tar`), '.'])
    await rm(at('files'), { recursive: true })
    return at(`${name}.tar`)
  }
  const disk = await archive('source', 600)
  const { signal } = new AbortController()
  const second = await putBehind(disk, await archive('second', 3_000_000), signal)
  const third = await putBehind(disk, await archive('third!', 6), signal)
  await run(
    'sh',
    [
      '-euc',
      `disk() { echo "$DISK"; }\n${unpackBehind}mkdir a b c; tar -xf "$(disk source)" -C a; unpack_behind ${second} b; unpack_behind ${third} c`,
    ],
    { cwd: dir.path, env: { DISK: disk, PATH: process.env['PATH'] ?? '' } },
  )
  expect(await readFile(at('a/source'), 'utf8')).toBe('source'.repeat(100))
  expect((await readFile(at('b/second'), 'utf8')).length).toBe(3_000_000)
  expect(await readFile(at('c/third!'), 'utf8')).toBe('third!')
})
