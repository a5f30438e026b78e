import type { Sweep } from '../../engine/sweep.ts'
import { hours, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { sealBatch } from './chain.ts'
import { removeOldAudit } from './retention.ts'

const batch = 1000

/** The sweep that seals new audit rows. */
export const auditSealing = ({ db, vault }: Pick<Deps, 'db' | 'vault'>): Sweep => ({
  name: 'audit-sealing',
  everyMs: seconds(1),
  async run({ signal }) {
    let sealed = 0
    for (;;) {
      const count = await sealBatch(db, vault, batch)
      sealed += count
      if (count < batch || signal.aborted) return { sealed }
    }
  },
})

/** The sweep that removes old rows if a retention is configured. By default all rows are kept. */
export const auditRetention = ({ db, config }: Pick<Deps, 'db' | 'config'>): Sweep => ({
  name: 'audit-retention',
  everyMs: hours(1),
  async run({ signal, now }) {
    if (config.auditRetentionDays === 0) return { removed: 0 }
    const before = new Date(now.getTime() - config.auditRetentionDays * hours(24))
    let removed = 0
    for (;;) {
      const count = await removeOldAudit(db, before, batch)
      removed += count
      if (count === 0 || signal.aborted) return { removed }
    }
  },
})
