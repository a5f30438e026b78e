import { productVersion } from '../../lib/version.ts'
import type { Health } from './schema.ts'

export interface Checks {
  readonly postgres: boolean
  readonly bus: boolean
}

const word = (ok: boolean) => (ok ? 'ok' : 'unavailable')

export const isReady = (checks: Checks) => checks.postgres && checks.bus

/** Converts the state of the services to the form of the API. */
export function healthOf(checks: Checks): Health {
  return {
    status: word(isReady(checks)),
    version: productVersion,
    services: { postgres: word(checks.postgres), bus: word(checks.bus) },
  }
}
