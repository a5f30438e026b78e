/**
 * Executables `rbd` and `ceph` for agents that spawn these programs. They forward their arguments to this process,
 * which has the fake cluster. As in Ceph, the client name (`--id`) identifies the host.
 */
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { CommandError } from '../../src/lib/exec.ts'
import { type FakeCluster, fakeCluster } from './fake-rbd.ts'

export interface RbdPrograms extends AsyncDisposable {
  readonly cluster: FakeCluster
  /** Returns the path of the file with a volume's content. */
  fileOf(volumeId: string): string
}

interface Answer {
  readonly code: number
  readonly out: string
  readonly why: string
}

/**
 * Creates the executables and puts them first in this process's PATH, until disposed.
 * @param dir directory with a short path, because it contains a socket
 */
export async function rbdPrograms(dir: string): Promise<RbdPrograms> {
  const cluster = fakeCluster(join(dir, 'images'))
  const bin = join(dir, 'bin')
  const socket = join(dir, 'rbd.sock')
  await mkdir(bin, { recursive: true })
  await mkdir(join(dir, 'images'), { recursive: true })
  const server = createServer((request, response) => {
    void json(request)
      .then(argv => answerTo(cluster, argv))
      .then(answer => response.end(JSON.stringify(answer)))
  }).listen(socket)
  await once(server, 'listening')
  for (const name of ['rbd', 'ceph'])
    await writeFile(join(bin, name), `#!${process.execPath}\n${asking(name, socket)}`, { mode: 0o755 })
  const before = process.env['PATH'] ?? ''
  process.env['PATH'] = `${bin}:${before}`
  return {
    cluster,
    fileOf: volumeId => join(dir, 'images', `v.${volumeId}`),
    async [Symbol.asyncDispose]() {
      process.env['PATH'] = before
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

async function answerTo(cluster: FakeCluster, argv: unknown): Promise<Answer> {
  const [program = '', option, client = '', ...args] = Array.isArray(argv) ? argv.map(String) : []
  if (option !== '--id') return { code: 22, out: '', why: 'no client is named' }
  try {
    return { code: 0, out: await cluster.client(client)(program, args), why: '' }
  } catch (error) {
    if (!(error instanceof CommandError)) return { code: 1, out: '', why: String(error) }
    return { code: error.exitCode ?? 1, out: '', why: error.stderr }
  }
}

/** Returns the source of an executable: plain JavaScript, because the file has no extension. */
const asking = (name: string, socket: string) => `
const argv = JSON.stringify([${JSON.stringify(name)}, ...process.argv.slice(2)])
const request = require('node:http').request({ socketPath: ${JSON.stringify(socket)}, method: 'POST' }, async response => {
  let text = ''
  for await (const part of response) text += part
  const { code, out, why } = JSON.parse(text)
  process.stdout.write(out)
  process.stderr.write(why)
  process.exitCode = code
})
request.end(argv)
`
