import { once } from 'node:events'
import { mkdtemp, mkdtempDisposable, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { connectIn } from './short-socket.ts'

it('a peer that resets the connection before the caller listens for errors does not crash the process', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'mote-socket-'))
  // Closing a socket with unread data resets its connection.
  const server = createServer({ pauseOnConnect: true }, socket => setImmediate(() => socket.destroy()))
  try {
    server.listen(join(dir, 'a.sock'))
    await once(server, 'listening')
    const uncaught: unknown[] = []
    const record = (error: unknown) => void uncaught.push(error)
    process.on('uncaughtExceptionMonitor', record)
    for (let n = 0; n < 20; n++) {
      const socket = await connectIn(dir, 'a.sock')
      const closed = new Promise(resolve => socket.once('close', resolve))
      socket.write('nobody reads this')
      socket.resume()
      await closed
    }
    process.off('uncaughtExceptionMonitor', record)
    expect(uncaught).toEqual([])
  } finally {
    server.close()
    await rm(dir, { recursive: true })
  }
})

it('connecting to a socket on which nothing listens is rejected', async () => {
  await expect(connectIn(tmpdir(), 'nothing-listens-here.sock')).rejects.toMatchObject({ code: 'ENOENT' })
})

it('with shared memory, a paused socket delivers no data until it is resumed, and none is lost', async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), 'mote-socket-'))
  const sent = Buffer.from(Array.from({ length: 600_000 }, (_, n) => n % 251))
  const server = createServer(socket => socket.end(sent))
  server.listen(join(dir.path, 'a.sock'))
  await once(server, 'listening')
  const received = await Promise.all(
    [1, 2, 3].map(async () => {
      const socket = await connectIn(dir.path, 'a.sock', { sharesMemory: true })
      await new Promise(setImmediate)
      const parts: Buffer[] = []
      socket.on('data', (part: Buffer) => {
        parts.push(Buffer.from(part))
        if (parts.length % 2 === 0) return
        socket.pause()
        setImmediate(() => socket.resume())
      })
      socket.resume()
      await once(socket, 'close')
      return Buffer.concat(parts)
    }),
  )
  server.close()
  expect(received.map(bytes => bytes.equals(sent))).toEqual([true, true, true])
})
