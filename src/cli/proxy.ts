/** Listens on a local port and connects each client with a TCP port in a VM, through sessions. */
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { connectSession } from '../client/index.ts'
import { err } from './terminal.ts'
import type { Call } from './verb.ts'

export interface ProxyTarget {
  readonly app_name: string
  readonly job_id: string
  readonly vm_id: string | undefined
  /** Port in the VM. */
  readonly port: number
}

/**
 * Time after the proxy's end until the VM ends a session. Short, because a local client cannot reconnect to its
 * session.
 */
const idleSeconds = 60

/** Starts listening. @param local port on loopback; 0: a free one. @throws Error if the port is taken */
export async function startProxy(call: Call, target: ProxyTarget, local: number): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, socket => {
    serve(call, target, socket).catch((cause: unknown) => {
      err(`${cause instanceof Error ? cause.message : String(cause)}\n`)
      socket.destroy()
    })
  })
  server.listen(local, '127.0.0.1')
  await once(server, 'listening').catch((cause: unknown) => {
    throw new Error(
      `The local port ${local} cannot be used. Choose another one: mote proxy <local port>:${target.port}`,
      {
        cause,
      },
    )
  })
  return server
}

async function serve(call: Call, { app_name, job_id, vm_id, port }: ProxyTarget, socket: Socket): Promise<void> {
  // Ignored: `close` follows an error such as a reset, and is handled below.
  socket.on('error', () => undefined)
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  const { id } = await call.client.openVmSession({
    app_name,
    job_id,
    body: { port, vm_id, idle_timeout_seconds: idleSeconds },
  })
  const place = { app_name, job_id, session_id: id }
  const words = [app_name, job_id, id].map(encodeURIComponent)
  const connection = connectSession({
    baseUrl: call.url,
    path: `/v1/apps/${words[0]}/deployments/${words[1]}/sessions/${words[2]}/attach`,
    project: call.project,
    token: () => call.token,
    state: async () => {
      const { status, exit_code } = await call.client.getVmSession(place)
      return status === 'running' ? undefined : { reason: status, code: exit_code }
    },
    onOutput: (stream, data) => (stream === 'stderr' ? err(Buffer.from(data).toString()) : writeTo(socket, data)),
  })
  socket.on('data', data => {
    socket.pause()
    connection.write(data).then(
      () => socket.resume(),
      () => undefined,
    )
  })
  socket.on('end', () => connection.closeInput())
  socket.resume()
  const ended = connection.ended.then(() => 'ended' as const)
  if ((await Promise.race([ended, closed])) === 'ended') return void socket.end()
  connection.detach()
  await call.client.closeVmSession(place)
}

const writeTo = (socket: Socket, data: Uint8Array): Promise<void> =>
  new Promise(resolve => {
    // Resolve even after an error: the socket is then closed, which also closes the session.
    socket.write(data, () => resolve())
  })
