import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { procfileIn } from './procfile.ts'
import { threadCpuMs } from '../../test/support/cpu-time.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-procfile-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const read = async (text: string) => {
  await writeFile(join(dir, 'Procfile'), text)
  return procfileIn(dir)
}
const shell = (line: string) => ({ command: ['/bin/sh', '-c', line] })

it('the processes of a Procfile become workers and a release command', async () => {
  const text =
    'web: gunicorn shop.wsgi\r\n# a comment\nMail_Queue:   celery -A shop worker -l "info"\nrelease: ./manage.py migrate\nclock: python clock.py'
  expect(await read(text)).toEqual({
    release: shell('./manage.py migrate'),
    workers: { 'mail-queue': shell('celery -A shop worker -l "info"'), clock: shell('python clock.py') },
  })
})

it.each([
  ['only a web process', 'web: node a.js\n'],
  ['one process of another name, which is started as web', 'bot: node a.js\n'],
  ['nothing', ''],
  ['no process', 'hello\n\u0000\u0001: x\n: y\nweb:\n'],
])('nothing is converted from a Procfile with %s', async (_what, text) => expect(await read(text)).toBeUndefined())

it('nothing is converted without a Procfile', async () => expect(await procfileIn(dir)).toBeUndefined())

it.each([
  ['too many workers', `web: a\n${Array.from({ length: 10 }, (_, n) => `w${n}: b\n`).join('')}`, 'limit of 9'],
  ['names that become the same', 'web: a\nmail_1: b\nmail-1: c\n', 'differ only'],
])(
  'a Procfile is refused if it has %s',
  async (_what, text, message) => await expect(read(text)).rejects.toThrow(message),
)

it('a huge Procfile is read with less than 50 ms of CPU time', async () => {
  await writeFile(join(dir, 'Procfile'), `web: a\nx: ${' '.repeat(60_000)}\n`.repeat(200))
  const usedMs = await threadCpuMs(async () => expect(await procfileIn(dir)).toBeUndefined())
  expect(usedMs).toBeLessThan(50)
})
