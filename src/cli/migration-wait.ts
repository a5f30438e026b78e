/** Waits until a VM has moved to another host. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { MigrationStatus } from '../client/index.ts'
import type { Call } from './verb.ts'

/** How often the state is read. */
const pollIntervalMs = 500

/** @throws Error with the reason if the migration fails or is canceled; the VM then stays on its host */
export const untilMigrated = (
  { client, terminal, signal }: Call,
  place: { readonly app_name: string; readonly job_id: string },
  what: string,
): Promise<MigrationStatus> =>
  terminal.step(what, async report => {
    for (;;) {
      signal.throwIfAborted()
      const now = await client.getMigration(place, { signal })
      if (now.status === 'completed') return now
      if (now.status === 'cancelled') throw new Error('The migration was canceled. The VM stays on its host.')
      if (now.status === 'failed') throw new Error(`The VM stays on its host: ${now.error ?? 'the migration failed'}`)
      if (now.percent) report(now.percent / 100)
      await sleep(pollIntervalMs, undefined, { signal }).catch(() => signal.throwIfAborted())
    }
  })
