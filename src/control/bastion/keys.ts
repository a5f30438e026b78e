/**
 * Host keys of the SSH bastions. Gateways report them and the API returns them, so that clients need not trust an
 * unknown key on first use.
 */
import { Value } from 'typebox/value'
import { type Sql, statement } from '../../db/db.ts'
import type { Subscription } from '../../bus/bus.ts'
import { BastionKey, gatewaySubjects } from '../../contract/gateway.ts'
import { hours } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'

const put = statement(
  'bastion.putBastionKey',
  `INSERT INTO bastion_key (public_key, seen_at) VALUES ($1, $2)
   ON CONFLICT (public_key) DO UPDATE SET seen_at = excluded.seen_at`,
)
const list = statement<{ publicKey: string }>(
  'bastion.bastionKeys',
  `SELECT public_key AS "publicKey" FROM bastion_key WHERE seen_at > $1 ORDER BY public_key`,
)
const forget = statement('bastion.forgetBastionKeys', `DELETE FROM bastion_key WHERE seen_at <= $1`)

/** Retention of a host key. A gateway that has not reported a key for this time has another key or no longer exists. */
const cachedMs = hours(24)

/** Returns the bastions' host keys as lines of known_hosts(5) without the host name: `ssh-ed25519 AAAA...`. */
export const bastionKeys = async (sql: Sql, now: Date): Promise<string[]> =>
  (await sql.rows(list, [new Date(now.getTime() - cachedMs)])).map(row => row.publicKey)

export async function startBastionKeyReceiver({
  bus,
  db,
  clock,
}: Pick<Deps, 'bus' | 'db' | 'clock'>): Promise<Subscription> {
  return bus.serve(
    gatewaySubjects.tunnelKey,
    async data => {
      const { publicKey } = Value.Parse(BastionKey, data)
      const now = clock.now()
      await db.run(put, [publicKey, now])
      await db.run(forget, [new Date(now.getTime() - cachedMs)])
      return {}
    },
    { group: 'control' },
  )
}

/**
 * Returns ssh options that make the client accept only the bastion's host key. ssh can get only one key from a command
 * line (OpenSSH 8.5): with several keys, or none yet, the client trusts the key of its first connection.
 */
export function hostKeyOptions([key, ...others]: readonly string[]): string {
  if (key === undefined || others.length > 0) return '-o StrictHostKeyChecking=accept-new'
  const known = `-o HostKeyAlias=mote-bastion -o 'KnownHostsCommand=/bin/echo mote-bastion ${key}'`
  return `-o StrictHostKeyChecking=yes ${known} -o UserKnownHostsFile=/dev/null`
}
