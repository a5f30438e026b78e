/** Connects a client's TCP connection to a VM of the app, once the app is awake. */
import { type Socket, connect } from 'node:net'
import type { Logger } from 'pino'
import type { Route } from '../../contract/gateway.ts'
import type { RoutingDeps } from '../admission.ts'
import type { Target } from '../backends.ts'
import { faultOf } from '../faults.ts'
import { joinStreams } from '../upgrade.ts'

export interface TcpDeps extends RoutingDeps {
  readonly log: Logger
}

const connectMs = 2000
const maxTries = 3

/** Serves a connection. If the app cannot accept it, closes it without an error message, because TCP has none. */
export async function serve(deps: TcpDeps, name: string, client: Socket): Promise<void> {
  const known = await deps.table.current(name)
  if (client.destroyed) return
  const address = client.remoteAddress ?? ''
  if (!known) return void client.destroy()
  if (deps.limiter.enter(known.appId, address)) {
    deps.traffic.refused(known.appId)
    return void client.destroy()
  }
  const end = deps.traffic.begin(known.appId)
  let failed = true
  const gone = new AbortController()
  client.once('close', () => {
    gone.abort()
    deps.limiter.leave(known.appId, address)
    end(failed, client.bytesWritten)
  })
  const route = known.state === 'sleeping' ? await deps.wake(known, gone.signal) : known
  const socket = route && !client.destroyed ? await reach(deps, route, client) : undefined
  failed = socket === undefined && !client.destroyed
  if (!socket) return void client.destroy()
  joinStreams(client, socket)
}

/** Connects to one of the VMs. All are equally suitable, because nothing has been read from the client yet. */
async function reach({ pools }: TcpDeps, route: Route, client: Socket) {
  const tried = new Set<string>()
  for (let n = 0; n < maxTries; n++) {
    const target = pools.pick(route, tried)
    if (!target || client.destroyed) return undefined
    tried.add(target.key)
    const use = pools.begin(target)
    use.lasts()
    try {
      const socket = await connected(target)
      pools.answered(target)
      const forget = pools.onCut(target, () => socket.destroy())
      socket.once('close', () => {
        use.end()
        forget()
      })
      return { socket, head: Buffer.alloc(0) }
    } catch (cause) {
      use.end()
      pools.failed(target, cause instanceof Error ? faultOf(cause) : 'other')
    }
  }
  return undefined
}

function connected({ backend: { host, port } }: Target): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const socket = connect({ host, port, allowHalfOpen: true, noDelay: true, timeout: connectMs })
  const late = () =>
    socket.destroy(Object.assign(new Error('no connection in time'), { code: 'UND_ERR_CONNECT_TIMEOUT' }))
  socket
    .once('timeout', late)
    .once('error', reject)
    .once('connect', () => {
      socket.setTimeout(0)
      socket.off('timeout', late).off('error', reject)
      resolve(socket)
    })
  return promise
}
