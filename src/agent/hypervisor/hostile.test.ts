/** A guest may take over its VMM. The agent must keep working, whatever such a VMM sends it. */
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { readMemory } from './qemu/balloon.ts'
import { connectQmp } from './qemu/qmp.ts'
import { vmmHttp } from './vmm-http.ts'

/** Listens on a Unix socket in place of a VMM, and calls `say` for each request, which may answer anything. */
async function speaking(say: (socket: Socket, asked: string) => void) {
  const dir = await testDir()
  const server = createServer(socket => {
    socket.on('error', () => undefined).on('data', data => say(socket, data.toString()))
  })
  server.listen(join(dir.path, 'vmm.sock'))
  await once(server, 'listening')
  return {
    path: dir.path,
    async [Symbol.asyncDispose]() {
      server.close()
      await rm(dir.path, { recursive: true, force: true })
    },
  }
}

/** Writes data in an endless loop until the other end closes the connection. */
const endlessly = (socket: Socket, data: Buffer) => {
  const more = () => socket.write(data, error => !error && !socket.destroyed && more())
  more()
}
const mib = Buffer.alloc(1 << 20, 'x')
const okay = (asked: string) => `{"return":{},"id":${/"id":(\d+)/.exec(asked)?.[1]}}\n`

describe('QMP', () => {
  it.each([
    ['an endless message', (socket: Socket) => endlessly(socket, mib)],
    ['invalid JSON', (socket: Socket) => socket.write('{"return":\n')],
    ['endless nesting', (socket: Socket) => socket.write(`${'['.repeat(900_000)}\n`)],
  ])('%s closes the connection and fails the pending command', async (_, say) => {
    await using vmm = await speaking((socket, asked) =>
      asked.includes('qmp_capabilities') ? socket.write(okay(asked)) : say(socket),
    )
    const qmp = await connectQmp(vmm.path, 'vmm.sock')
    await expect(qmp.execute('query-status')).rejects.toThrow(/QEMU broke its protocol/)
    await qmp.closed
    await expect(qmp.execute('query-status')).rejects.toThrow(/QEMU broke its protocol/)
  })

  it.each(['1.5', '-1', '1e300', '"x"', 'null', '{}'])('a balloon of the invalid size %s counts as 0', async actual => {
    await using vmm = await speaking((socket, asked) => {
      for (const line of asked.trim().split('\n')) {
        const id = /"id":(\d+)/.exec(line)?.[1]
        const stats = `{"stat-total-memory":${actual},"stat-available-memory":${actual}}`
        const answer = line.includes('query-balloon') ? `{"actual":${actual}}` : `{"stats":${stats}}`
        socket.write(`{"return":${answer},"id":${id}}\n`)
      }
    })
    const qmp = await connectQmp(vmm.path, 'vmm.sock')
    expect(await readMemory(qmp)).toEqual({ ramUsedBytes: 0, balloonActualMib: 0 })
    qmp.close()
  })
})

describe('the HTTP API of a VMM', () => {
  it('an endless answer makes the agent close the connection', async () => {
    await using vmm = await speaking(socket => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
      endlessly(socket, Buffer.concat([Buffer.from('100000\r\n'), mib, Buffer.from('\r\n')]))
    })
    await expect(vmmHttp('a VMM', vmm.path, 'vmm.sock').call('GET', '/')).rejects.toThrow(/too long/)
  })

  it('a long error message of the VMM is truncated', async () => {
    const reason = 'x'.repeat(100_000)
    await using vmm = await speaking(socket =>
      socket.end(`HTTP/1.1 400 Bad Request\r\ncontent-length: ${reason.length}\r\n\r\n${reason}`),
    )
    const refused: unknown = await vmmHttp('a VMM', vmm.path, 'vmm.sock')
      .call('GET', '/')
      .catch((error: unknown) => error)
    expect(String(refused).length).toBeLessThan(2000)
  })
})
