/** Notifies users when a volume becomes 80 percent full, and again when it becomes 95 percent full. */
import { type Tx, statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { notify } from '../notifications/index.ts'

/** Levels of fullness, in percent. Users are notified when a volume reaches one. */
const levels = [95, 80] as const
/** How many percentage points a volume must fall below a level before it can reach that level again. */
const hysteresis = 5
export type Fullness = 0 | (typeof levels)[number]

/**
 * Returns the highest level that a volume has reached; 0 if it has reached none.
 * @param percent used share of the volume's size
 * @param known level of the volume at the previous measurement
 */
export function fullnessOf(percent: number, known: Fullness): Fullness {
  return levels.find(level => percent >= level - (known >= level ? hysteresis : 0)) ?? 0
}

interface Measured {
  readonly id: string
  readonly projectId: string
  readonly name: string
  readonly databaseId: string | null
  readonly databaseName: string | null
  readonly sizeMib: number
  readonly percent: number
  readonly known: Fullness
}

// Selects the volumes whose level is above 0 or may rise above 0: those of users and those of database branches that
// users have created, with the database's name for the notification. Spare branches and restore drills are excluded.
const measuredVolumes = statement<Measured>(
  'volumes.fullness',
  `SELECT o.id, o.project_id AS "projectId", o.name, d.id AS "databaseId", d.name AS "databaseName",
     o.size_mib AS "sizeMib", o.used_bytes / 1048576.0::float8 * 100 / o.size_mib AS percent, o.fullness AS known
   FROM volume o LEFT JOIN branch b ON o.owner = 'database' AND b.id = o.owner_id LEFT JOIN database d ON d.id = b.database_id
   WHERE o.want = 'present' AND o.measured_at IS NOT NULL AND (o.owner = 'user' OR b.kind = 'user')
     AND (o.fullness > 0 OR o.used_bytes >= o.size_mib * 1048576.0::float8 * 0.8)
   LIMIT 1000`,
)
const setFullness = statement(
  'volumes.setFullness',
  `UPDATE volume SET fullness = $3 WHERE id = $1 AND fullness = $2 AND want = 'present'`,
)

export const fullVolumes = (deps: Pick<Deps, 'db'>): Sweep => ({
  name: 'full-volumes',
  everyMs: seconds(30),
  async run() {
    const counts = { looked: 0, reported: 0 }
    for (const volume of await deps.db.rows(measuredVolumes)) {
      counts.looked++
      const level = fullnessOf(volume.percent, volume.known)
      if (level !== volume.known && (await deps.db.tx(tx => report(tx, volume, level)))) counts.reported++
    }
    return counts
  },
})

/**
 * Records the volume's new fullness level, and notifies users if the level rose. Returns whether users were notified.
 */
async function report(tx: Tx, volume: Measured, level: Fullness): Promise<boolean> {
  if ((await tx.run(setFullness, [volume.id, volume.known, level])) !== 1 || level < volume.known) return false
  const { projectId, databaseId, databaseName } = volume
  const what = databaseName === null ? `Volume ${volume.name}` : `A disk of database ${databaseName}`
  const mend =
    databaseId === null
      ? `PATCH /v1/volumes/${volume.id} {"size_mib": ...}`
      : `PATCH /v1/databases/${databaseId} {"disk_mib": ...}`
  await notify(tx, {
    projectId,
    kind: 'volume.trouble',
    title: `${what} is ${level} % full`,
    body: `${Math.round(volume.percent)} % of its ${volume.sizeMib} MiB is in use. The volume can grow while it is in use: ${mend}`,
    entityName: databaseName ?? volume.name,
    resourceId: databaseId ?? volume.id,
    route: databaseId === null ? '/volumes' : `/databases/${databaseId}`,
  })
  return true
}
