import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { type TxtResolver, lookFor } from './resolver.ts'
import * as store from './store.ts'
import { sweepName } from './sweep-name.ts'
import { applyLook } from './verify.ts'

const atOnce = 20
const eachRun = 200

/** The sweep that checks the TXT records of new domains, and periodically those of all other domains. */
export const domainChecks = (deps: Pick<Deps, 'db'>, resolver: TxtResolver): Sweep => ({
  name: sweepName,
  everyMs: seconds(15),
  async run({ now, signal }) {
    const due = await store.due(deps.db, eachRun)
    let verified = 0
    for (let at = 0; at < due.length && !signal.aborted; at += atOnce) {
      const checks = due.slice(at, at + atOnce).map(async domain => {
        const found = await lookFor(resolver, domain)
        const after = await deps.db.tx(tx => applyLook(tx, domain.id, found, now))
        if (after?.state === 'verified') verified++
      })
      await Promise.all(checks)
    }
    return { looked: due.length, verified }
  },
})
