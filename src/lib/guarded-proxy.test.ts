import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { parseCidr } from './cidr.ts'
import { guardedProxy } from './guarded-proxy.ts'

const loopback = [parseCidr('127.0.0.0/8')].filter(cidr => cidr !== undefined)

/** Starts a server that greets every client and counts them. */
async function inside() {
  let visitors = 0
  const server = createServer(socket => {
    visitors++
    socket.end('hello')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    visitors: () => visitors,
    [Symbol.dispose]: () => void server.close(),
  }
}

/** Sends a CONNECT request. Returns the status of the response, and the data that follows. */
async function ask(proxy: URL, target: string, login = true): Promise<[number, string]> {
  const authorization = `Basic ${Buffer.from(`${proxy.username}:${proxy.password}`).toString('base64')}`
  const headers = login ? { 'proxy-authorization': authorization } : {}
  const asked = request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: target, headers }).end()
  const [response, socket, head] = (await once(asked, 'connect')) as [{ statusCode: number }, Duplex, Buffer]
  let text = String(head)
  socket.on('data', data => (text += data))
  if (response.statusCode === 200) await once(socket, 'end')
  socket.destroy()
  return [response.statusCode, text]
}

it('the proxy connects to an allowed host at the address that it checked', async () => {
  using server = await inside()
  const asked: string[] = []
  await using proxy = await guardedProxy({ allowed: loopback }, async name => {
    asked.push(name)
    // A second lookup of the name would return another address.
    return asked.length === 1 ? ['127.0.0.1'] : ['192.0.2.1']
  })
  const url = new URL(proxy.environment['HTTPS_PROXY'] ?? '')
  expect(await ask(url, `registry.example:${server.port}`)).toEqual([200, 'hello'])
  expect(asked).toEqual(['registry.example'])
})

it.each(['127.0.0.1', '[::1]', '10.0.0.1', '169.254.169.254', '[fd00::1]', '[::ffff:127.0.0.1]', 'inside.example'])(
  'the proxy refuses to connect to %s',
  async host => {
    using server = await inside()
    await using proxy = await guardedProxy(undefined, async () => ['127.0.0.1'])
    const url = new URL(proxy.environment['HTTPS_PROXY'] ?? '')
    expect((await ask(url, `${host}:${server.port}`))[0]).toBe(403)
    expect(proxy.refused).toEqual([host])
    expect(server.visitors()).toBe(0)
  },
)

it('the proxy requires its password and only accepts CONNECT', async () => {
  using server = await inside()
  await using proxy = await guardedProxy({ allowed: loopback })
  const url = new URL(proxy.environment['HTTPS_PROXY'] ?? '')
  expect((await ask(url, `127.0.0.1:${server.port}`, false))[0]).toBe(407)
  expect((await ask(url, 'nonsense'))[0]).toBe(400)
  expect((await fetch(`http://127.0.0.1:${url.port}/`)).status).toBe(405)
  expect(server.visitors()).toBe(0)
})

it('a slow client gets all data, even after the server has closed the connection', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'mote-proxy-'))
  try {
    const socketPath = join(dir, 'proxy.sock')
    await using proxy = await guardedProxy({ allowed: loopback }, undefined, { socket: socketPath, port: 3128 })
    const { username, password } = new URL(proxy.environment['HTTPS_PROXY'] ?? '')
    const headers = { 'proxy-authorization': `Basic ${btoa(`${username}:${password}`)}` }
    // A unix socket buffers 200 KiB, so with some of these sizes, a part of the data is still in the proxy when the
    // server closes.
    for (let bytes = 100_000; bytes < 600_000; bytes += 15_000) {
      const server = createServer(
        socket =>
          void socket
            .on('error', () => undefined)
            .resume()
            .end(Buffer.alloc(bytes)),
      )
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const path = `127.0.0.1:${(server.address() as AddressInfo).port}`
      const asked = request({ socketPath, method: 'CONNECT', path, headers }).end()
      const [, client, head] = (await once(asked, 'connect')) as [unknown, Duplex, Buffer]
      // Gives the proxy time to notice that the server has closed the connection.
      for (let turn = 0; turn < 200; turn++) await setImmediate()
      let got = head.length
      client.on('data', (data: Buffer) => (got += data.length))
      await once(client, 'end')
      expect(got).toBe(bytes)
      client.end()
      server.close()
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
