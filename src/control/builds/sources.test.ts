import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { forgetSources } from './sources.ts'

it('the cleanup of old sources keeps an upload in progress, and deletes an aborted upload after a day', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'mote-test-'))
  try {
    await mkdir(join(dir, 'app'))
    const now = new Date()
    const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000)
    const files: readonly (readonly [string, number])[] = [
      ...[1, 2, 3, 4, 5].map(n => [`${n}.tar.gz`, n] as const),
      ['slow.partial', 30],
      ['broken.partial', 25 * 60],
    ]
    for (const [name, minutes] of files) {
      await writeFile(join(dir, 'app', name), '')
      await utimes(join(dir, 'app', name), ago(minutes), ago(minutes))
    }
    expect(await forgetSources(dir, now)).toBe(2)
    const left = await readdir(join(dir, 'app'))
    expect(left.toSorted()).toEqual(['1.tar.gz', '2.tar.gz', '3.tar.gz', '4.tar.gz', 'slow.partial'])
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
