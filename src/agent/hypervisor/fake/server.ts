import { createServer, type Server } from 'node:http'
import { networkInterfaces, platform } from 'node:os'
import type { FakeHost } from './host.ts'

export interface FakeServer {
  readonly port: number
  close(): Promise<void>
}

/**
 * One HTTP server for all simulated VMs. Each has an address of its own in 127.0.0.0/8, which on Linux is all loopback:
 * the address a request came to tells the VM. It has to listen on every address for that, so whatever did not come to
 * a loopback address is cut.
 */
export async function startFakeServer(host: FakeHost, port: number): Promise<FakeServer> {
  const server = createServer((request, response) => {
    const address = request.socket.localAddress ?? ''
    const vm = [...host.vms.values()].find(one => one.address === address)
    if (vm === undefined) return void request.socket.destroy()
    if (vm.paused) return // a paused guest does not answer, it does not refuse either
    vm.rxBytes += Number(request.headers['content-length'] ?? 0) + 200
    vm.txBytes += 300
    if (request.url !== '/health') vm.say('stdout', `${request.method} ${request.url}`)
    const who = { 'x-mote-vm': vm.vmId, 'x-mote-memory': vm.memory, 'x-mote-identity': vm.identity }
    response.writeHead(vm.healthy ? 200 : 503, { 'content-type': 'text/plain', ...who })
    response.end(vm.healthy ? `Hello from ${vm.hostname}, a simulated VM\n` : 'not ready\n')
  })
  server.on('connection', socket => {
    if (!socket.localAddress?.startsWith('127.')) socket.destroy()
  })
  const used = (await listen(server, port)) || (await listen(server, 0))
  server.unref()
  return {
    port: used,
    close: () => {
      server.closeAllConnections()
      return new Promise(resolve => server.close(() => resolve()))
    },
  }
}

/** The port, or 0 when it is taken. */
function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? resolve(0) : reject(error))
    server.once('error', onError)
    server.listen(port, '0.0.0.0', () => {
      server.off('error', onError)
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : 0)
    })
  })
}

/** Where Linux answers for all of 127.0.0.0/8, others only for 127.0.0.1: there all VMs share one address. */
export function fakeAddress(index: number): string {
  if (platform() !== 'linux' || networkInterfaces().lo === undefined) return '127.0.0.1'
  const n = index + 2
  return `127.${64 + ((n >> 16) & 63)}.${(n >> 8) & 255}.${n & 255}`
}
