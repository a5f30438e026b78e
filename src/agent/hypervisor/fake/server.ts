import { createServer, type Server } from 'node:http'
import { networkInterfaces, platform } from 'node:os'
import type { FakeHost } from './host.ts'

export interface FakeServer {
  readonly port: number
  close(): Promise<void>
}

/**
 * One HTTP server for all simulated VMs. Each VM has its own address in 127.0.0.0/8, and the destination address of a
 * request identifies the VM. The server has to listen on every address for that, so it closes connections to addresses
 * that are not loopback.
 */
export async function startFakeServer(host: FakeHost, port: number): Promise<FakeServer> {
  const server = createServer((request, response) => {
    const address = request.socket.localAddress ?? ''
    const vm = [...host.vms.values()].find(one => one.address === address)
    if (vm === undefined) return void request.socket.destroy()
    if (vm.paused) return // a paused guest neither answers nor refuses
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

/** Listens and returns the port, or 0 if the port is in use. */
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

/** Returns the VM's address. Only Linux answers on all of 127.0.0.0/8; elsewhere all VMs share 127.0.0.1. */
export function fakeAddress(index: number): string {
  if (platform() !== 'linux' || networkInterfaces().lo === undefined) return '127.0.0.1'
  const n = index + 2
  return `127.${64 + ((n >> 16) & 63)}.${(n >> 8) & 255}.${n & 255}`
}
