import { once } from 'node:events'
import { Duplex } from 'node:stream'
import { expect, it } from 'vitest'
import { joinStreams } from './upgrade.ts'

/** Creates the gateway's connection to a backend, which accepts all data. */
const backend = () =>
  new Duplex({ read: () => undefined, write: (_data, _encoding, done) => done(), allowHalfOpen: false })

const join = (client: Duplex, socket: Duplex) => joinStreams(client, { socket, head: Buffer.alloc(0) })

/** Creates a client that reads the next message only when the test lets it. */
function slowReader() {
  const heard: Buffer[] = []
  let take = () => {}
  const client = new Duplex({
    read: () => undefined,
    write(data: Buffer, _encoding, done) {
      heard.push(data)
      take = done
    },
  })
  return {
    client,
    async readAll(): Promise<string> {
      while (!client.writableFinished && !client.destroyed) {
        take()
        await new Promise(setImmediate)
      }
      return Buffer.concat(heard).toString()
    },
  }
}

it.each([
  ['is silent', []],
  ['still sends', ['more']],
])('everything that the backend sent before it closed reaches a slow client that %s', async (_how, said) => {
  const { client, readAll } = slowReader()
  const socket = backend()
  join(client, socket)
  for (const text of ['one ', 'two ', 'three']) socket.push(text)
  socket.push(null)
  await once(socket, 'end')
  for (const text of said) client.push(text)
  if (!socket.closed) await once(socket, 'close').catch(() => undefined)
  expect(client.destroyed).toBe(false)
  expect(await readAll()).toBe('one two three')
  client.push(null)
  await once(client, 'close')
})

it('the client is closed when the backend disconnects, and vice versa', async () => {
  const [broken, client] = [backend(), backend()]
  join(client, broken)
  const closed = once(client, 'close')
  broken.destroy(new Error('reset'))
  await closed

  const [other, left] = [backend(), backend()]
  join(left, other)
  const gone = once(other, 'close')
  left.destroy()
  await gone
})
