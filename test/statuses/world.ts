/** One system with simulated hosts and two tenants, Ann and Bob, to which the tests of API statuses send requests. */
import { isDeepStrictEqual } from 'node:util'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { fakeHost, type FakeHost } from '../support/control/scm.ts'
import { subjects } from '../../src/contract/agent.ts'
import type { ControlConfig } from '../../src/control/base/config.ts'
import type { Db, Param, Statement } from '../../src/db/db.ts'
import { retryable } from '../../src/db/errors.ts'
import { newId } from '../../src/lib/ids.ts'
import { allOperations } from '../../src/control/operations.ts'
import type { Operation } from '../../src/control/http/operation.ts'
import { takesKey } from '../../src/control/http/write.ts'
import { type SimHost, simHost, type SimVm } from '../support/sim-host.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { createRecord, type Record } from './record.ts'
import { type Answered, send, type Sent } from './send.ts'

export type Params = Readonly<{ [name: string]: string }>

export interface Asked extends Partial<Omit<Sent, 'path' | 'method'>> {
  readonly params?: Params
  readonly query?: Readonly<{ [name: string]: string }>
  /** The status that the request is meant to provoke. Another status is recorded, but does not count as provoked. */
  readonly expects?: number
  /** Description of the request for the table in docs/api-statuses.md. */
  readonly how?: string
}

export interface World extends AsyncDisposable {
  readonly system: TestSystem
  readonly config: ControlConfig
  readonly record: Record
  readonly source: FakeHost
  readonly hosts: readonly SimHost[]
  /** The tenant that owns all resources, and an administrator. */
  readonly ann: TestUser
  /** Another tenant, without resources. */
  readonly bob: TestUser
  /** Path parameters that name Ann's resources. The tests add to it as they create resources. */
  readonly params: { [name: string]: string }
  /**
   * Sends the first successful request of the operation again, with the same `Idempotency-Key`.
   * @returns `same answer`, the status of a different response, or undefined if no request succeeded
   */
  repeat(id: string): Promise<string | undefined>
  /** Sends a request, as Ann by default, and records the status of the response. */
  ask(id: string, asked?: Asked): Promise<Answered>
  /** Like `ask`, but throws unless the response has the given status. */
  see(id: string, status: number, asked?: Asked): Promise<Answered>
  /** Pauses the simulated hosts while `work` runs, so that operations that wait for a host make no progress. */
  whileHostsRest<T>(work: () => Promise<T>): Promise<T>
}

/** Changes rows while `work` runs, to reach states that would take hours or need another configuration. */
export async function whileSet(
  { system: { database } }: World,
  change: string,
  [value, before]: readonly [Param, Param],
  work: () => Promise<unknown>,
): Promise<void> {
  const set = { name: `test.${change.slice(0, 40)}`, text: `UPDATE ${change}` }
  await changeRows(database.db, set, value)
  try {
    await work()
  } finally {
    await changeRows(database.db, set, before)
  }
}

/** Changes the rows. Retries after a deadlock, because workflows lock the same rows in another order. */
async function changeRows(db: Db, set: Statement<never>, value: Param): Promise<void> {
  for (;;)
    try {
      await db.run(set, [value])
      return
    } catch (cause) {
      if (!retryable(cause)) throw cause
    }
}

export const operationOf = (id: string): Operation => {
  const operation = allOperations[id]
  if (!operation) throw new Error(`there is no operation ${id}`)
  return operation
}

export function pathOf({ path }: Operation, params: Params): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (value === undefined) throw new Error(`no value for parameter ${name} of ${path}`)
    return encodeURIComponent(value)
  })
}

/** Returns the headers of a WebSocket handshake (RFC 6455, 4.1). */
const socketHeaders = ({ subprotocol = '' }: Operation) => ({
  connection: 'upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'sec-websocket-protocol': subprotocol,
})

/** Sends a request again. @returns `same answer`, or the status of a different response */
async function repeatOf(request: Sent, answer: Answered): Promise<string> {
  const again = await send(request)
  const isSame = isDeepStrictEqual(again.body, answer.body) && again.headers['idempotent-replayed'] === 'true'
  return isSame ? 'same answer' : String(again.status)
}

const always = (outcome: string) => async () => outcome

export async function createWorld(): Promise<World> {
  await using undo = new AsyncDisposableStack()
  const source = undo.use(await fakeHost())
  const parsed = parseControlConfig({
    ...source.env,
    MOTE_SECRET_KEY: 'test-'.repeat(8),
    MOTE_BILLING_PROVIDER: 'sandbox',
    MOTE_CAPTCHA: 'off',
    MOTE_REGISTRY: 'registry.example.com/mote',
  })
  const { billing, scm, registry } = parsed
  const system = undo.use(
    await testSystem({
      agents: 0,
      config: {
        billing,
        scm,
        registry,
        registryUrl: 'http://localhost:5000',
        tcpPorts: { first: 20_000, last: 20_001 },
      },
    }),
  )
  const config: ControlConfig = {
    ...parsed,
    rateLimits: {
      tenantPerMinute: 1e6,
      anonymousPerMinute: 1e6,
      loginPerMinute: 1e6,
      createsPerSecond: 1e6,
      refusalDelayMs: 0,
    },
    sourceDir: system.dir,
  }
  const { hosts, whileHostsRest } = await simulatedHosts(system, undo)
  const ann = await system.user()
  const bob = await system.user()
  const record = createRecord()
  const repeated = new Map<string, () => Promise<string>>()
  const params: { [name: string]: string } = { tenant_slug: ann.project }
  const ask = async (id: string, { params: named = {}, query, expects = 200, how = '', ...sent }: Asked = {}) => {
    const operation = operationOf(id)
    const search = query ? `?${new URLSearchParams(query).toString()}` : ''
    const request = {
      port: system.control.port,
      method: operation.method,
      path: pathOf(operation, { ...params, ...named }) + search,
      ...(operation.auth === 'bearer' ? { token: ann.token } : {}),
      ...sent,
      headers: {
        ...(operation.answer === 'socket' ? socketHeaders(operation) : {}),
        ...(takesKey(operation) ? { 'idempotency-key': newId() } : {}),
        ...sent.headers,
      },
    }
    const answer = await send(request)
    record.add(id, answer.status, answer.status === expects ? how : undefined)
    if (takesKey(operation) && answer.status === 200 && !repeated.has(id)) {
      const again = () => repeatOf(request, answer)
      // Repeat a request within a project when its test calls `repeat`, because the next request may depend on a
      // short-lived state. Repeat all others at once, because later requests may revoke their credential.
      repeated.set(id, operation.project === 'selected' ? again : always(await again()))
    }
    if (answer.headers.etag !== undefined && !record.has(id, 304)) {
      const again = await send({ ...request, headers: { ...sent.headers, 'if-none-match': '*' } })
      record.add(id, again.status, again.status === 304 ? '`If-None-Match` of the current version' : undefined)
    }
    return answer
  }
  const all = undo.move()
  return {
    system,
    config,
    record,
    source,
    hosts,
    ann,
    bob,
    params,
    repeat: async id => repeated.get(id)?.(),
    ask,
    whileHostsRest,
    async see(id, status, asked) {
      const answer = await ask(id, { ...asked, expects: status })
      if (answer.status !== status)
        throw new Error(`${id} answered ${answer.status} instead of ${status}: ${JSON.stringify(answer.body)}`)
      return answer
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

async function simulatedHosts(system: TestSystem, undo: AsyncDisposableStack) {
  const wires = new Map<string, SimVm>()
  const hosts: SimHost[] = []
  for (const name of ['sim-1', 'sim-2'])
    hosts.push(
      await simHost(system.bus, {
        id: newId(),
        name,
        wires,
        reportsTime: true,
        vcpus: 1000,
        memoryMib: 1_000_000,
        diskMib: 10_000_000,
      }),
    )
  const end = new AbortController()
  let rest: { begun: PromiseWithResolvers<void>; over: PromiseWithResolvers<void> } | undefined
  const turning = (async () => {
    for (let round = 0; !end.signal.aborted; round++) {
      for (const host of hosts) {
        if (round % 50 === 0) await system.bus.publish(subjects.heartbeat(host.id), host.heartbeat())
        await host.tick()
      }
      rest?.begun.resolve()
      await rest?.over.promise
      await new Promise(resolve => setTimeout(resolve, 5))
    }
  })()
  undo.defer(async () => {
    end.abort()
    await turning
    for (const host of hosts) await host.stop()
  })
  const joined = async () => {
    const { count } = await system.database.db.one<{ count: number }>({
      name: 'test.hosts',
      text: 'SELECT count(*)::int AS count FROM host',
    })
    return count === hosts.length
  }
  await until(joined, { what: 'the hosts to join' })
  const whileHostsRest = async <T>(work: () => Promise<T>): Promise<T> => {
    const { begun, over } = (rest = { begun: Promise.withResolvers(), over: Promise.withResolvers() })
    // Wait until the current round of the hosts has ended: they might still act on what `work` requests.
    await begun.promise
    try {
      return await work()
    } finally {
      rest = undefined
      over.resolve()
    }
  }
  return { hosts, whileHostsRest }
}
