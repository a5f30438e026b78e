import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface TcpServiceRow {
  readonly name: string
  readonly port: number
  readonly tls: 'none' | 'sni'
  /** Port on the gateways; null for a service with TLS, which uses the shared port. */
  readonly publicPort: number | null
  readonly createdAt: Date
}

/** The app to which a service belongs. */
export interface ServedApp {
  readonly id: string
  readonly name: string
  readonly hostname: string
  readonly kind: 'web' | 'worker'
}

const appColumns = `id, name, hostname, kind`
const condition = `project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`
const findApp = statement<ServedApp>('tcpServices.app', `SELECT ${appColumns} FROM app WHERE ${condition}`)
const lockApp = statement<ServedApp>('tcpServices.lock', `SELECT ${appColumns} FROM app WHERE ${condition} FOR UPDATE`)

const columns = `name, port, 'none' AS tls, public_port AS "publicPort", created_at AS "createdAt"`
const tlsColumns = `name, port, 'sni' AS tls, NULL::int AS "publicPort", created_at AS "createdAt"`
const allOfApp = statement<TcpServiceRow>(
  'tcpServices.ofApp',
  `SELECT ${columns} FROM tcp_service WHERE app_id = $1
   UNION ALL SELECT ${tlsColumns} FROM tls_service WHERE app_id = $1 ORDER BY name`,
)
const changePort = statement<TcpServiceRow>(
  'tcpServices.change',
  `UPDATE tcp_service SET port = $3 WHERE app_id = $1 AND name = $2 RETURNING ${columns}`,
)
// The primary key is the app's id, so an app has at most one service with TLS.
const putTls = statement<TcpServiceRow>(
  'tcpServices.putTls',
  `INSERT INTO tls_service AS s (app_id, name, port) VALUES ($1, $2, $3)
   ON CONFLICT (app_id) DO UPDATE SET port = excluded.port WHERE s.name = excluded.name RETURNING ${tlsColumns}`,
)
// Chooses a port at random, so that another app rarely gets a port that was just released.
const insertOne = statement<TcpServiceRow>(
  'tcpServices.insert',
  `INSERT INTO tcp_service (app_id, name, port, public_port)
   SELECT $1, $2, $3, p FROM generate_series($4::int, $5::int) p
   WHERE NOT EXISTS (SELECT FROM tcp_service s WHERE s.public_port = p) ORDER BY random() LIMIT 1
   ON CONFLICT (public_port) DO NOTHING RETURNING ${columns}`,
)
const removeOne = statement('tcpServices.remove', `DELETE FROM tcp_service WHERE app_id = $1 AND name = $2`)
const removeTls = statement('tcpServices.removeTls', `DELETE FROM tls_service WHERE app_id = $1 AND name = $2`)

export const app = (sql: Sql, projectId: string, name: string) => sql.maybe(findApp, [projectId, name])
/** Locks the app, so that changes of its services are made one after another. */
export const lock = (tx: Tx, projectId: string, name: string) => tx.maybe(lockApp, [projectId, name])
export const ofApp = (sql: Sql, appId: string) => sql.rows(allOfApp, [appId])
export const change = (tx: Tx, appId: string, name: string, port: number) => tx.maybe(changePort, [appId, name, port])

export interface NewTcpService {
  readonly appId: string
  readonly name: string
  readonly port: number
}

/**
 * Number of attempts to find a port. More than one is needed, because a concurrent transaction may take the same port
 * first.
 */
const tries = 5

/** Creates a service on a free public port. Returns undefined if no port of the installation's range is free. */
export async function insert(
  tx: Tx,
  { appId, name, port }: NewTcpService,
  { first, last }: { readonly first: number; readonly last: number },
): Promise<TcpServiceRow | undefined> {
  for (let n = 0; n < tries; n++) {
    const made = await tx.maybe(insertOne, [appId, name, port, first, last])
    if (made) return made
  }
  return undefined
}
/**
 * Creates or changes the app's service with TLS. Returns undefined if the app already has a service with TLS that has
 * another name.
 */
export const putWithTls = (tx: Tx, { appId, name, port }: NewTcpService) => tx.maybe(putTls, [appId, name, port])
/** Deletes a service. Returns false if there was none. */
export const remove = async (tx: Tx, appId: string, name: string) => {
  const removed = await Promise.all([tx.run(removeOne, [appId, name]), tx.run(removeTls, [appId, name])])
  return removed.includes(1)
}
