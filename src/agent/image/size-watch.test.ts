import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { watchSize } from './size-watch.ts'

test('a program is killed when the directory that it creates exceeds the limit', async () => {
  await using parent = await testDir()
  const dir = join(parent.path, 'pull')
  const error = new Error('too large')
  await using watch = watchSize(dir, { maxBytes: 1000, error: () => error, everyMs: 1 })
  await mkdir(join(dir, 'blobs', 'sha256'), { recursive: true })
  await writeFile(join(dir, 'blobs', 'sha256', 'a'), Buffer.alloc(600))
  expect(watch.signal.aborted).toBe(false)
  const over = once(watch.signal, 'abort')
  await writeFile(join(dir, 'oci-put-blob1'), Buffer.alloc(600))
  await over
  expect(watch.signal.reason).toBe(error)
})
