/** For tests: the control and log ports of a guest, served by the test instead of the guest's init. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectIn } from '../../../src/lib/short-socket.ts'
import type { GuestPorts } from '../../../src/agent/guest/ports.ts'

export interface OtherEnd {
  /** Lines received from the host. */
  readonly lines: () => readonly string[]
  /** Writes data to the host; resolves once it has been written. */
  send(data: string | Buffer): Promise<void>
  readonly socket: Socket
}

export interface TestPorts extends AsyncDisposable {
  readonly ports: GuestPorts
  /** Returns the guest's end of the connection to the port, once there is one. */
  end(port: 'control' | 'log'): Promise<OtherEnd>
  readonly connections: () => number
}

export async function testPorts(): Promise<TestPorts> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-test-'))
  let connections = 0
  const control = await listen(dir, 'ctl.sock', () => (connections += 1))
  const log = await listen(dir, 'log.sock', () => undefined)
  const both = { control, log }
  return {
    ports: { control: () => connectIn(dir, 'ctl.sock'), log: () => connectIn(dir, 'log.sock') },
    end: port => both[port].newest(),
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      control.close()
      log.close()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function listen(dir: string, name: string, onConnection: () => void) {
  let newest = Promise.withResolvers<OtherEnd>()
  const open = new Set<Socket>()
  const server = createServer(socket => {
    onConnection()
    open.add(socket)
    let text = ''
    socket.on('error', () => undefined).on('data', part => (text += part.toString('latin1')))
    newest.resolve({
      socket,
      lines: () => text.split('\n'),
      send: data => new Promise(resolve => socket.write(data, () => resolve())),
    })
  })
  server.listen(join(dir, name))
  await once(server, 'listening')
  return {
    newest: () => newest.promise,
    close() {
      for (const socket of open) socket.destroy()
      server.close()
      newest = Promise.withResolvers()
    },
  }
}
