/**
 * The minimal server for a request of the product, as an upper bound for Node and node-pg: runs the SQL statements of
 * the request one after the other on one connection, and responds with the first row of the last statement, or with
 * the row's column `page`. The first message of the parent contains the address of the database and the statements.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import type { LeastWork } from './least.ts'

process.once('disconnect', () => process.exit(1))
process.once('message', async ({ databaseUrl, queries }: LeastWork) => {
  const client = new pg.Client({ connectionString: databaseUrl, pipeline: true })
  await client.connect()
  const server = createServer(async (request, response) => {
    request.resume()
    let text = ''
    for (const query of queries) {
      const [row] = (await client.query({ ...query, values: [...query.values] })).rows
      text = typeof row?.page === 'string' ? row.page : JSON.stringify(row ?? {})
    }
    const body = Buffer.from(text)
    response
      .writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length })
      .end(body)
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
})
