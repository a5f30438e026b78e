/**
 * Program for crash tests: starts the embedded PostgreSQL in the directory given as its first argument and inserts
 * numbers until it is killed. It prints each number once the database has acknowledged it.
 */
import { pino } from 'pino'
import { connectDb } from '../../src/db/connect.ts'
import { statement } from '../../src/db/db.ts'
import { startEmbeddedPostgres } from '../../src/db/embedded.ts'

const log = pino({ level: 'silent' })
const server = await startEmbeddedPostgres({ dataDir: process.argv[2] ?? '', log })
const db = await connectDb({ url: server.url, log })
await db.run(statement('writer.table', 'CREATE TABLE IF NOT EXISTS written (n bigint PRIMARY KEY)'))
const insert = statement('writer.insert', 'INSERT INTO written (n) VALUES ($1)')
let next = Number(process.argv[3] ?? 0)
const writer = async () => {
  for (;;) {
    const n = next++
    await db.run(insert, [n])
    process.stdout.write(`${n}\n`)
  }
}
await Promise.all(Array.from({ length: 16 }, writer))
