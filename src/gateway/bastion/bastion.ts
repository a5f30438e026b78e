/**
 * An SSH server for databases and for the VMs of apps. A client logs in with an access token as password, or with a
 * registered key. The user name is either the id of a database, to which the client may open `direct-tcpip` channels
 * (RFC 4254, 7.2), or the name of an app, in whose VM it may start programs, transfer files and reach ports (shell.ts).
 * Control authorizes each login, tunnel and session.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Logger } from 'pino'
import ssh2 from 'ssh2'
import { Value } from 'typebox/value'
import type { Bus } from '../../bus/bus.ts'
import {
  type TunnelLogin,
  TunnelLoginAnswer,
  type TunnelOpen,
  TunnelOpenAnswer,
  gatewaySubjects,
  loginReaches,
} from '../../contract/gateway.ts'
import { countFailures } from './failures.ts'
import { hostKey } from './host-key.ts'
import { decide } from './login.ts'
import { type ShellControl, type Shells, shellControl, shellsOf } from './shell.ts'
import { publicKeyOf, reportKey } from './report-key.ts'

export interface BastionConfig {
  readonly host: string
  /** Port on which the bastion listens; 0: any free port. */
  readonly port: number
  readonly hostKeyFile: string
  /**
   * Interval at which the bastion checks that the databases of open tunnels still exist and that the user may still use
   * them, in ms; default 10 s.
   */
  readonly pollEveryMs?: number
}

export interface Bastion {
  readonly port: number
  stop(): Promise<void>
}

export interface ControlAnswers {
  logIn(login: TunnelLogin): Promise<string | null>
  open(desired: TunnelOpen): Promise<TunnelOpenAnswer>
  readonly shell: ShellControl
}

const askTimeoutMs = 5000
/** Timeout for connecting to a database. A guest with an emulated processor on a busy host has taken more than 5 s. */
const connectMs = 15_000
/** Time limit for the login, after which the client is disconnected. */
const loginMs = 30_000
const failuresPerMinute = 10
const mostConnections = 1000
const tunnelsPerConnection = 64
const pollEveryMs = 10_000

export async function startBastion(
  config: BastionConfig,
  deps: { readonly bus: Bus; readonly log: Logger },
): Promise<Bastion> {
  const failures = countFailures(failuresPerMinute, () => performance.now())
  const connections = new Set<ssh2.Connection>()
  const control: ControlAnswers = {
    logIn: async login => {
      const answer = await deps.bus.request(gatewaySubjects.tunnelLogin, login, { timeoutMs: askTimeoutMs })
      return Value.Parse(TunnelLoginAnswer, answer).grant
    },
    open: async desired => {
      const answer = await deps.bus.request(gatewaySubjects.tunnelOpen, desired, { timeoutMs: askTimeoutMs })
      return Value.Parse(TunnelOpenAnswer, answer)
    },
    shell: shellControl(deps.bus),
  }
  const privateKey = await hostKey(config.hostKeyFile)
  const options = { hostKeys: [privateKey], ident: 'mote', keepaliveInterval: 30_000 }
  const ssh = new ssh2.Server(options, (connection, { ip }) => {
    connections.add(connection)
    const late = setTimeout(() => connection.end(), loginMs)
    const everyMs = config.pollEveryMs ?? pollEveryMs
    serve(connection, ip, { control, failures, everyMs, log: deps.log, onReady: () => clearTimeout(late) })
    connection.on('close', () => {
      clearTimeout(late)
      connections.delete(connection)
    })
  })
  // Turn off Nagle's algorithm: with delayed acknowledgments, it would add 40 ms to every query.
  const server = createServer({ noDelay: true }, socket => {
    if (connections.size >= mostConnections || !failures.mayTry(socket.remoteAddress ?? '')) socket.destroy()
    else ssh.injectSocket(socket)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(config.port, config.host, () => resolve())
  })
  const stopReporting = reportKey(deps.bus, publicKeyOf(privateKey))
  return {
    port: (server.address() as AddressInfo).port,
    async stop() {
      stopReporting()
      const closed = new Promise<void>(resolve => server.close(() => resolve()))
      for (const connection of connections) connection.end()
      await closed
    },
  }
}

interface Serving {
  readonly control: ControlAnswers
  readonly failures: ReturnType<typeof countFailures>
  readonly everyMs: number
  readonly log: Logger
  readonly onReady: () => void
}

function serve(connection: ssh2.Connection, ip: string, { control, failures, everyMs, log, onReady }: Serving): void {
  let grant: string | undefined
  let shells: Shells | undefined
  let tunnels = 0
  let isOver = false
  connection.on('close', () => {
    isOver = true
    shells?.end()
  })
  const watch = tunnelWatch(control, everyMs)
  connection.on('authentication', context => {
    if (!failures.mayTry(ip)) {
      connection.end()
      return
    }
    decide(context, ip, control).then(
      verdict => {
        if (verdict.kind === 'granted') {
          grant = verdict.grant
          if (loginReaches(context.username) === 'app') shells = shellsOf(control.shell, grant, log)
        }
        if (verdict.kind === 'refused' && verdict.counts) failures.note(ip)
        if (verdict.kind === 'refused') context.reject(['publickey', 'password'])
        else context.accept()
      },
      (err: unknown) => {
        log.warn({ err, ip }, 'cannot check a login to the bastion')
        context.reject(['publickey', 'password'])
      },
    )
  })
  connection.on('ready', onReady)
  connection.on('tcpip', (accept, reject, { destIP: host, destPort: port }) => {
    if (shells) {
      shells.forwardPort(accept, reject, host, port)
      return
    }
    if (grant === undefined || tunnels >= tunnelsPerConnection) {
      reject()
      return
    }
    tunnels++
    const leave = () => void tunnels--
    const desired = { grant, host, port }
    openTunnel(control, desired)
      .then(upstream => {
        if (!upstream) return refuse(reject, leave)
        if (isOver) {
          // The SSH connection ended while the tunnel was being opened, so nothing would ever close the tunnel.
          upstream.destroy()
          return leave()
        }
        join(accept(), upstream, leave)
        watch(desired, upstream)
      })
      .catch((err: unknown) => {
        log.warn({ err, ip }, 'cannot open a tunnel')
        refuse(reject, leave)
      })
  })
  connection.on('openssh.streamlocal', (accept, reject, { socketPath }) => {
    if (shells) shells.forwardSocket(accept, reject, socketPath)
    else reject()
  })
  connection.on('session', (accept, reject) => {
    if (shells) shells.serve(accept())
    else reject()
  })
  connection.on('request', (_accept, reject) => reject?.())
  // Logged at debug level, because port scanners often disconnect during the handshake.
  connection.on('error', err => log.debug({ err, ip }, 'an SSH connection ended with an error'))
}

function refuse(reject: () => void, leave: () => void): void {
  leave()
  reject()
}

/** Connects to the database. Returns undefined if control refuses the tunnel. */
async function openTunnel(control: ControlAnswers, desired: TunnelOpen): Promise<Socket | undefined> {
  const { endpoint } = await control.open(desired)
  if (!endpoint) return undefined
  return new Promise((resolve, reject) => {
    // Keep-alive detects a VM that was restarted at the same address after a failure: such a VM resets connections that
    // it does not know.
    const alive = { keepAlive: true, keepAliveInitialDelay: 10_000 }
    const socket = connect({ host: endpoint.host, port: endpoint.port, noDelay: true, timeout: connectMs, ...alive })
    const fail = (cause: Error) => {
      socket.destroy()
      reject(cause)
    }
    socket.once('error', fail)
    socket.once('timeout', () => fail(new Error('the database did not answer in time')))
    socket.once('connect', () => {
      socket.setTimeout(0)
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

/** Number of consecutive checks without an address after which the database counts as gone. */
const checksAllowed = 3

/**
 * Returns a function that watches a tunnel, and ends it when its database has moved or died, or the permission was
 * revoked. A dead database does not close its connections, and clients would retransmit for a quarter of an hour. All
 * tunnels of one connection to one database share the checks.
 */
function tunnelWatch(control: ControlAnswers, everyMs: number): (desired: TunnelOpen, upstream: Socket) => void {
  const places = new Map<string, Set<Socket>>()
  const watch = (key: string, desired: TunnelOpen): Set<Socket> => {
    const open = new Set<Socket>()
    places.set(key, open)
    let missing = 0
    const checkDatabase = async () => {
      const { endpoint, mayOpen, mayStay } = await control.open(desired)
      if (mayStay) return
      missing = endpoint ? 0 : missing + 1
      // A database without an address may only be unavailable for a moment.
      const isGone = mayOpen === false || missing >= checksAllowed
      for (const socket of open) {
        const isElsewhere = endpoint && (endpoint.host !== socket.remoteAddress || endpoint.port !== socket.remotePort)
        if (isGone || isElsewhere) socket.destroy()
      }
    }
    const timer = setInterval(() => {
      // Ignore failed checks: tunnels stay open while control is unreachable.
      if (open.size > 0) return void checkDatabase().catch(() => undefined)
      clearInterval(timer)
      places.delete(key)
    }, everyMs).unref()
    return open
  }
  return (desired, upstream) => {
    const key = `${desired.host}:${desired.port}`
    const open = places.get(key) ?? watch(key, desired)
    open.add(upstream)
    upstream.once('close', () => open.delete(upstream))
  }
}

function join(channel: ssh2.ServerChannel, upstream: Socket, done: () => void): void {
  channel.pipe(upstream).pipe(channel)
  upstream.on('error', () => channel.destroy())
  channel.on('error', () => upstream.destroy())
  channel.on('close', () => upstream.destroy())
  upstream.once('close', () => {
    channel.end()
    done()
  })
}
