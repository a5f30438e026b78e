import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { SharedLocks } from './lock.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())

test('when the server hangs, the session loses its locks, and the next attempt to take a lock opens another session', async () => {
  const socket = join(decodeURIComponent(/\?host=(.+)$/.exec(database.url)?.[1] ?? ''), '.s.PGSQL.5432')
  let [hangs, sessions] = [false, 0]
  const proxy = createServer(client => {
    sessions++
    const server = connect(socket).on('data', answer => hangs || client.write(answer))
    client.on('data', asked => server.write(asked)).once('close', () => server.destroy())
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  using _closing = { [Symbol.dispose]: () => void proxy.close() }
  const { port } = proxy.address() as AddressInfo
  const [, user = '', name = ''] = /\/\/(\w+)@\/(\w+)\?/.exec(database.url) ?? []
  const locks = new SharedLocks(`postgresql://${user}@127.0.0.1:${port}/${name}`, new Set(), 100)
  await locks.withLock('held', async lost => {
    hangs = true
    await expect(locks.withLock('asked', async () => 'ran')).rejects.toMatchObject({ reason: 'connection_lost' })
    expect(lost.reason).toMatchObject({ reason: 'connection_lost' })
    hangs = false
    // The work under the lost lock is still running, so no other work in this program may get the lock yet.
    expect(await locks.withLock('held', async () => 'ran')).toBeUndefined()
    expect(await locks.withLock('asked', async () => 'ran')).toBe('ran')
  })
  expect(await locks.withLock('held', async () => 'ran')).toBe('ran')
  expect(sessions).toBe(2)
  await locks.close()
})
