/** Runs an etcd with one node, which is accessed through its JSON gateway. */
import { request } from 'node:http'
import { freePort, startPeer } from './beside.ts'

export interface EtcdWatch extends AsyncDisposable {
  /** Returns the milliseconds from the request that puts a value until a watcher is notified. */
  putToWatch(): Promise<number>
}

const key = Buffer.from('bench').toString('base64')

/** Starts etcd. @throws Error with the reason if it cannot run */
export async function startEtcd(): Promise<EtcdWatch> {
  await using cleanup = new AsyncDisposableStack()
  const [client, peer] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`]
  const urls = ['--listen-client-urls', client, '--advertise-client-urls', client, '--listen-peer-urls', peer]
  const cluster = ['--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`]
  await startPeer(cleanup, {
    needs: ['etcd'],
    command: dir => ['etcd', '--data-dir', dir, ...urls, ...cluster],
    ready: async () => (await fetch(`${client}/health`)).ok,
  })
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
