import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { connectIn } from './short-socket.ts'

it('a peer that resets the connection before anybody listens for errors does not end the process', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'mote-socket-'))
  // Closing a socket with unread data resets the connection.
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

it('rejects when nothing listens', async () => {
  await expect(connectIn(tmpdir(), 'nothing-listens-here.sock')).rejects.toMatchObject({ code: 'ENOENT' })
})
