/** Keeps the configuration of a running HAProxy equal to the routes, through its runtime API. */
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { RouteTable } from '../route-table.ts'
import type { HaproxyShape } from './haproxy-config.ts'
import { type HaproxyState, type ServerState, commandsFor, desiredOf } from './haproxy-plan.ts'

/** Interval of comparisons with HAProxy's configuration, which also detect a restarted HAProxy and manual changes. */
const lookMs = 2000
/** Route changes within this time are applied together. */
const gatherMs = 20
const answerMs = 2000
/** Number of commands per request to HAProxy, which accepts lines of at most 16 KiB. */
const commandsAtOnce = 50

export interface HaproxyPublisher {
  /**
   * Applies the current routes to HAProxy, and returns the number of commands. @throws Error when HAProxy is
   * unreachable or refuses a command
   */
  sync(): Promise<number>
  stop(): Promise<void>
}

export function startHaproxyPublisher(table: RouteTable, shape: HaproxyShape, log: Logger): HaproxyPublisher {
  const stopping = new AbortController()
  const assigned = new Map<string, string>()
  let changed = Promise.withResolvers<void>()
  const syncOnce = async () => {
    const state = await readState(shape)
    const commands = commandsFor(desiredOf(table.all(), shape, assigned), state, shape.mapFile)
    for (let at = 0; at < commands.length; at += commandsAtOnce)
      await report(shape.socket, commands.slice(at, at + commandsAtOnce))
    return commands.length
  }
  // Run one sync at a time, because two concurrent ones could use the same server for different addresses.
  let turn: Promise<unknown> = Promise.resolve()
  const sync = () => {
    const mine = turn.then(syncOnce)
    turn = mine.catch(() => {})
    return mine
  }
  table.onChange(() => changed.resolve())
  const loop = (async () => {
    let failing = false
    while (!stopping.signal.aborted) {
      changed = Promise.withResolvers()
      try {
        if (table.loaded()) await sync()
        failing = false
      } catch (cause) {
        if (!failing) log.warn({ err: cause }, 'cannot configure the routes in HAProxy; retrying')
        failing = true
      }
      const pause = new AbortController()
      const signal = AbortSignal.any([stopping.signal, pause.signal])
      await Promise.race([changed.promise, delay(lookMs, undefined, { signal }).catch(() => {})])
      pause.abort()
      await delay(gatherMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
  })()
  return {
    sync,
    async stop() {
      stopping.abort()
      await loop
      await turn
    },
  }
}

async function readState({ socket, mapFile }: HaproxyShape): Promise<HaproxyState> {
  const [map, servers] = [await ask(socket, `show map ${mapFile}`), await ask(socket, 'show servers state')]
  return { map: readMap(map), servers: readServers(servers) }
}

/** Parses the output of `show map`, whose lines are `<address of the entry> <key> <value>`. */
export function readMap(text: string): Map<string, string> {
  const lines = text.split('\n').map(line => line.trim().split(' '))
  return new Map(lines.flatMap(([, key, value]) => (key && value ? [[key, value] as const] : [])))
}

/**
 * Parses the output of `show servers state`, version 1 (management guide, 9.3): be_name 2, srv_name 4, srv_addr 5,
 * srv_admin_state 7, srv_port 19.
 */
export function readServers(text: string): Map<string, Map<string, ServerState>> {
  const found = new Map<string, Map<string, ServerState>>()
  for (const line of text.split('\n')) {
    const fields = line.split(' ')
    const [backend, server, host, port] = [fields[1], fields[3], fields[4], fields[18]]
    if (!backend || !server || !/^mote_\d+$/.test(backend)) continue
    const servers = found.get(backend) ?? new Map<string, ServerState>()
    // HAProxy reports maintenance mode with three flags: 0x01, 0x02 and 0x20.
    servers.set(server, { address: `${host}:${port}`, enabled: (Number(fields[6]) & 0x23) === 0 })
    found.set(backend, servers)
  }
  return found
}

/** Runs commands in HAProxy. @throws Error with HAProxy's output, unless it only confirms the commands */
async function report(socket: string, commands: readonly string[]): Promise<void> {
  const answer = (await ask(socket, commands.join(';')))
    .replace(/^(no need to change.*|IP changed.*|port changed.*)$/gm, '')
    .trim()
  if (answer !== '') throw new Error(`HAProxy refuses: ${answer.slice(0, 500)}`)
}

function ask(path: string, command: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const client = connect(path)
  let text = ''
  client.setTimeout(answerMs, () => client.destroy(new Error(`HAProxy does not answer at ${path}`)))
  client.setEncoding('utf8').on('data', chunk => (text += chunk))
  client.once('end', () => resolve(text)).once('error', reject)
  client.write(`${command}\n`)
  return promise
}
