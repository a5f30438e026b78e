/** An etcd of one node, spoken to through its JSON gateway. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasProgram } from '../src/lib/programs.ts'
import { until } from '../test/support/wait.ts'

export interface EtcdWatch extends AsyncDisposable {
  /** Milliseconds from the request that puts a value to the news of it at a watcher. */
  putToWatch(): Promise<number>
}

const key = Buffer.from('bench').toString('base64')

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** @returns why there is none, as text */
export async function startEtcd(): Promise<EtcdWatch | string> {
  if (!(await hasProgram('etcd'))) return 'not installed: npm run bench -- --install-peers'
  await using cleanup = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-etcd-'))
  cleanup.defer(() => rm(dir, { recursive: true, force: true }))
  const [client, peer] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`]
  const urls = ['--listen-client-urls', client, '--advertise-client-urls', client, '--listen-peer-urls', peer]
  const cluster = ['--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`]
  const child = spawn('etcd', ['--data-dir', dir, ...urls, ...cluster], { stdio: 'ignore' })
  const ended = once(child, 'exit')
  cleanup.defer(async () => {
    child.kill('SIGKILL')
    await ended
  })
  try {
    await until(async () => (await fetch(`${client}/health`)).ok, {
      what: 'etcd answers',
      timeoutMs: 15_000,
      everyMs: 50,
    })
  } catch {
    return 'it did not start'
  }
  let heard = () => {}
  const watching = request(`${client}/v3/watch`, { method: 'POST' }, response => response.on('data', () => heard()))
  watching.on('error', () => undefined).end(JSON.stringify({ create_request: { key } }))
  await new Promise<void>(resolve => (heard = resolve))
  cleanup.defer(() => void watching.destroy())
  const all = cleanup.move()
  return {
    async putToWatch() {
      const news = new Promise<void>(resolve => (heard = resolve))
      const began = performance.now()
      const answer = await fetch(`${client}/v3/kv/put`, {
        method: 'POST',
        body: JSON.stringify({ key, value: Buffer.alloc(200, 'x').toString('base64') }),
      })
      await news
      const ms = performance.now() - began
      await answer.arrayBuffer()
      return ms
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
