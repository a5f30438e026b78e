import { createGunzip } from 'node:zlib'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { extract } from 'tar-stream'
import { expect, it } from 'vitest'
import { archiveOf } from './archive.ts'

/** Creates a file like those that the browser's folder picker returns. */
const picked = (path: string, content = '') =>
  Object.defineProperty(new File([content], path.split('/').at(-1) ?? ''), 'webkitRelativePath', {
    value: `shop/${path}`,
  })

async function contentsOf(archive: Blob) {
  const found: Record<string, string> = {}
  const tar = Readable.from(Buffer.from(await archive.arrayBuffer()))
    .pipe(createGunzip())
    .pipe(extract())
  for await (const entry of tar) found[entry.header.name] = await text(Readable.from(entry))
  return found
}

it('the archive of a folder is a valid tar.gz, whatever its file names are', async () => {
  const files = {
    'index.html': 'hello',
    empty: '',
    'grüße/ö.txt': 'ü'.repeat(600),
    [`${'a'.repeat(60)}/${'b'.repeat(80)}.txt`]: 'long',
    [`${'x'.repeat(95)}.txt`]: 'nearly long',
  }
  const archive = await archiveOf(Object.entries(files).map(([path, content]) => picked(path, content)))
  expect(await contentsOf(archive)).toEqual(files)
})

it('the archive of a folder omits generated, secret and ignored files', async () => {
  const files = [
    ...[picked('.gitignore', '*.log\n!keep.log\n'), picked('a.log'), picked('keep.log'), picked('.env', 'KEY=1')],
    ...[picked('node_modules/x/index.js'), picked('b/.gitignore', 'c\n!d.log\n'), picked('b/c/e'), picked('b/d.log')],
  ]
  expect(Object.keys(await contentsOf(await archiveOf(files))).toSorted()).toEqual([
    ...['.gitignore', 'b/.gitignore', 'b/d.log', 'keep.log'],
  ])
  await expect(archiveOf([picked('node_modules/x')])).rejects.toThrow('all its files are ignored')
})
