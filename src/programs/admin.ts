/** A short visit to the database of an installation, running or not: what `mote admin` works with. */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Logger, pino } from 'pino'
import { parseControlConfig } from '../control/base/config.ts'
import { connectDb } from '../db/connect.ts'
import type { Db } from '../db/db.ts'
import { runningEmbeddedUrl, startEmbeddedPostgres } from '../db/embedded.ts'
import { migrationStatus } from '../db/migrate.ts'
import { createVault, type Vault } from '../lib/vault.ts'
import type { ProgramSettings } from './settings.ts'

export interface Visit {
  readonly db: Db
  /** @throws Error when no secret is configured */
  vault(): Vault
  /** @throws Error when the configuration has faults */
  publicUrl(): string
}

export type VisitSettings = Pick<ProgramSettings, 'data' | 'databaseUrl'>

/**
 * Connects to `DATABASE_URL`, else to the private server below `data`: beside `mote up` when that runs, else the server
 * is started for the visit and stopped after it. Never migrates.
 * @throws Error that says what to do when there is no such installation or its schema is another version's
 */
export async function visit<T>(
  settings: VisitSettings,
  env: Readonly<Record<string, string | undefined>>,
  work: (visit: Visit) => Promise<T>,
): Promise<T> {
  const log = pino({ level: 'silent' })
  await using cleanup = new AsyncDisposableStack()
  const url = settings.databaseUrl || (await privateUrl(settings.data, log, cleanup))
  const waiting = (await migrationStatus({ url })).filter(({ state }) => state === 'pending' || state === 'unknown')
  if (waiting.length > 0)
    throw new Error(
      'the database has the schema of another version: run this version of `mote control` or `mote up` first',
    )
  const db = await connectDb({ url, log })
  cleanup.defer(() => db.close())
  const secretFile = join(resolve(settings.data), 'secret.key')
  const config = () => parseControlConfig(env, !settings.databaseUrl && existsSync(secretFile) ? secretFile : undefined)
  return await work({ db, vault: () => createVault(config().secrets), publicUrl: () => config().publicUrl })
}

async function privateUrl(data: string, log: Logger, cleanup: AsyncDisposableStack): Promise<string> {
  const dataDir = join(resolve(data), 'postgres')
  if (!existsSync(join(dataDir, 'cluster')))
    throw new Error(`there is no installation in ${resolve(data)}: name its --data, or set DATABASE_URL`)
  const running = await runningEmbeddedUrl(dataDir)
  if (running !== undefined) return running
  const server = await startEmbeddedPostgres({ dataDir, log })
  cleanup.defer(() => server.stop())
  return server.url
}
