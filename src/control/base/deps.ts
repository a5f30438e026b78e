import type { Logger } from 'pino'
import type { Bus } from '../../bus/bus.ts'
import type { Db } from '../../db/db.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Vault } from '../../lib/vault.ts'
import type { ControlConfig } from './config.ts'

/** Dependencies of features. They are passed explicitly as arguments; there is no container and no singleton. */
export interface Deps {
  readonly db: Db
  readonly bus: Bus
  readonly config: ControlConfig
  readonly clock: Clock
  readonly vault: Vault
  readonly log: Logger
}
