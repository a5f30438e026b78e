/** Additional API servers on the database of the test system, each with one injected fault. */
import type { AddressInfo } from 'node:net'
import type { Db } from '../../src/db/db.ts'
import { features } from '../../src/control/app.ts'
import { auditWriter } from '../../src/control/audit/index.ts'
import { createAuthenticator, createIdempotencyStore } from '../../src/control/auth/index.ts'
import type { ControlConfig } from '../../src/control/base/config.ts'
import { createLiveStats } from '../../src/control/hosts/index.ts'
import type { ServerOptions } from '../../src/control/http/ports.ts'
import { createRateLimiter } from '../../src/control/http/rate-limit.ts'
import { createServer } from '../../src/control/http/server.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createVault } from '../../src/lib/vault.ts'
import { testLog } from '../support/log.ts'
import type { TestSystem } from '../support/system.ts'

export interface FaultyServer extends AsyncDisposable {
  readonly port: number
  /** Makes the server answer 503, as it does while it shuts down. */
  stop(): Promise<void>
}

interface Faults {
  readonly config: ControlConfig
  /** Error with which every SQL statement of a handler fails; undefined if none fails. */
  readonly database?: Error
  readonly pages?: ServerOptions['pages']
}

export async function faultyServer(system: TestSystem, { config, database, pages }: Faults): Promise<FaultyServer> {
  const { bus } = system
  const healthy = system.database.db
  const clock = systemClock
  const vault = createVault(config.secrets)
  const log = testLog()
  const deps = { config, bus, clock, vault, log, live: createLiveStats(clock) }
  const db = database ? failing(healthy, database) : healthy
  const security = createAuthenticator({ ...deps, db: healthy })
  // With a stopped clock, rate limits never refill, so they stay exhausted even on a slow machine.
  const frozen = { ...clock, monotonicMs: () => 0 }
  const { app } = createServer({
    features: features({ ...deps, db }, security),
    operations: {},
    deps: { ...deps, db },
    security,
    audit: auditWriter,
    idempotency: createIdempotencyStore(deps),
    rateLimiter: createRateLimiter(frozen),
    ...(pages ? { pages } : {}),
  })
  let isStopping = () => undefined as void
  let mayStop = () => undefined as void
  const stopping = new Promise<void>(resolve => (isStopping = resolve))
  const gate = new Promise<void>(resolve => (mayStop = resolve))
  // This hook runs after the server's own hook, which starts to reject requests. It delays the shutdown until the test
  // ends.
  app.addHook('preClose', async () => {
    isStopping()
    await gate
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  return {
    port,
    async stop() {
      void app.close()
      await stopping
    },
    async [Symbol.asyncDispose]() {
      mayStop()
      await app.close()
      await security.stop()
    },
  }
}

function failing(db: Db, fault: Error): Db {
  const fail = async (): Promise<never> => {
    throw fault
  }
  return { ...db, rows: fail, one: fail, maybe: fail, run: fail, tx: fail, whileAnswering: fail, listen: fail }
}
