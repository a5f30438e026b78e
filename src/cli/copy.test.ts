/** A copy from a VM unpacks an archive that the VM controls, so nothing may be written outside of the destination. */
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { extract, pack } from 'tar-stream'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { takeEntries } from './copy.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-copy-'))
  await mkdir(join(dir, 'in'))
  await writeFile(join(dir, 'outside'), 'untouched')
})
afterEach(() => rm(dir, { recursive: true, force: true }))

async function unpack(fill: (to: ReturnType<typeof pack>) => void, topName?: string): Promise<void> {
  const archive = pack()
  fill(archive)
  archive.finalize()
  const reader = extract()
  archive.pipe(reader)
  await takeEntries(reader, join(dir, 'in'), topName)
}

it('a copy from a VM writes files, directories and links with their modes, and gives the top directory the new name', async () => {
  await unpack(to => {
    to.entry({ name: 'tree/', type: 'directory', mode: 0o755 })
    to.entry({ name: 'tree/run', mode: 0o4755 }, 'x')
    to.entry({ name: 'tree/link', type: 'symlink', linkname: '/etc/passwd' })
  }, 'renamed')
  expect((await readdir(join(dir, 'in/renamed'))).sort()).toEqual(['link', 'run'])
  // The set-user-ID bit of the archive's entry is dropped.
  expect((await lstat(join(dir, 'in/renamed/run'))).mode & 0o7777).toBe(0o755)
})

it.each(['../outside', '/outside', 'a/../../outside', 'a//b', '.', '..', './x', 'a/./b'])(
  'a copy from a VM refuses an archive entry with the name %s',
  async name => {
    await expect(unpack(to => void to.entry({ name }, 'bad'))).rejects.toThrow('invalid name')
    expect(await readFile(join(dir, 'outside'), 'utf8')).toBe('untouched')
  },
)

it('a copy from a VM does not write through a symbolic link in the archive or on this computer', async () => {
  await mkdir(join(dir, 'target'))
  const through = unpack(to => {
    to.entry({ name: 'door', type: 'symlink', linkname: join(dir, 'target') })
    to.entry({ name: 'door/file' }, 'bad')
  })
  await expect(through).rejects.toThrow('is not a directory')
  await symlink(join(dir, 'target'), join(dir, 'in/own'))
  await expect(unpack(to => void to.entry({ name: 'own/file' }, 'bad'))).rejects.toThrow('is not a directory')
  await symlink(join(dir, 'outside'), join(dir, 'in/file'))
  await unpack(to => void to.entry({ name: 'file' }, 'replaces the link'))
  expect(await readdir(join(dir, 'target'))).toEqual([])
  expect(await readFile(join(dir, 'outside'), 'utf8')).toBe('untouched')
})

it('a copy from a VM keeps the existing local file if the archive is truncated', async () => {
  await writeFile(join(dir, 'in/file'), 'old')
  const archive = pack()
  archive.entry({ name: 'file' }, 'x'.repeat(2000))
  const reader = extract()
  reader.end(Buffer.concat([Buffer.from(await firstBytes(archive))]).subarray(0, 1000))
  await expect(takeEntries(reader, join(dir, 'in'), undefined)).rejects.toThrow()
  expect(await readFile(join(dir, 'in/file'), 'utf8')).toBe('old')
  expect(await readdir(join(dir, 'in'))).toEqual(['file'])
})

async function firstBytes(archive: ReturnType<typeof pack>): Promise<Buffer> {
  const parts: Buffer[] = []
  archive.finalize()
  for await (const part of archive) parts.push(part as Buffer)
  return Buffer.concat(parts)
}
