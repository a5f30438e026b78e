/** Opens an installation's database for `mote admin`, whether the installation is running or not. */
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
  /** Path of the data directory. */
  readonly data: string
  /** Returns the vault with the installation's secret. @throws Error if no secret is configured */
  vault(): Vault
  /** Returns the public address of the API. @throws Error if the configuration is invalid */
  publicUrl(): string
  /** Returns the plan for new projects. @throws Error if the configuration is invalid */
  defaultPlan(): string
}

export type VisitSettings = Pick<ProgramSettings, 'data' | 'databaseUrl'>

/**
 * Connects to `DATABASE_URL`, or otherwise to the private PostgreSQL server in `data`: to that of a running `mote up`,
 * or to one that is started now and stopped afterwards. Never migrates the schema.
 * @throws Error with advice if there is no such installation, or its schema belongs to another version
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
      'the database schema belongs to another version. Start this version of `mote control` or `mote up` first',
    )
  const db = await connectDb({ url, log })
  cleanup.defer(() => db.close())
  const secretFile = join(resolve(settings.data), 'secret.key')
  const config = () => parseControlConfig(env, !settings.databaseUrl && existsSync(secretFile) ? secretFile : undefined)
  return await work({
    db,
    data: settings.data,
    vault: () => createVault(config().secrets),
    publicUrl: () => config().publicUrl,
    defaultPlan: () => config().defaultPlan,
  })
}

async function privateUrl(data: string, log: Logger, cleanup: AsyncDisposableStack): Promise<string> {
  const dataDir = join(resolve(data), 'postgres')
  if (!existsSync(join(dataDir, 'cluster')))
    throw new Error(`there is no installation in ${resolve(data)}. Set its directory with --data, or set DATABASE_URL`)
  const running = await runningEmbeddedUrl(dataDir)
  if (running !== undefined) return running
  const server = await startEmbeddedPostgres({ dataDir, log })
  cleanup.defer(() => server.stop())
  return server.url
}
