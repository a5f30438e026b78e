/** Streams of the logs and metrics of a database, read from the VM of its current branch. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StreamEvent } from '../../../test/support/api.ts'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'

let system: TestSystem
let user: TestUser
let id: string
const patient = { everyMs: 50, timeoutMs: 90_000 }

beforeAll(async () => {
  system = await testSystem()
  user = await system.user()
  id = (await user.post('/v1/databases', { name: 'shop', engine: 'postgres' })).body.id
  await until(async () => (await user.get(`/v1/databases/${id}`)).body.status === 'running', {
    ...patient,
    what: 'the database runs',
  })
}, 120_000)
afterAll(() => system[Symbol.asyncDispose]())

async function listen(path: string) {
  const end = new AbortController()
  const events: StreamEvent[] = []
  const reading = (async () => {
    for await (const event of user.events(path, end.signal)) events.push(event)
  })().catch(() => undefined)
  return {
    events,
    until: (what: string, is: (event: StreamEvent) => boolean) =>
      until(() => events.find(is), { ...patient, what: `${what} in ${path}` }),
    async [Symbol.asyncDispose]() {
      end.abort()
      await reading
    },
  }
}
const vmOf = async () =>
  (
    await system.database.db.one<{ id: string }>(
      {
        name: 'test.vmOfDatabase',
        text: `SELECT v.id FROM vm v JOIN branch b ON b.app_id = v.app_id WHERE b.database_id = $1 AND b.is_current
               AND v.want <> 'absent'`,
      },
      [id],
    )
  ).id

describe('streams of a database', { timeout: 120_000 }, () => {
  it("send the server's log lines, including requested history", async () => {
    await using lines = await listen(`/v1/databases/${id}/logs/stream?tail=10`)
    const first = await lines.until('a line', ({ event }) => event === 'log')
    expect(first.data).toMatchObject({ vm_id: await vmOf(), line: expect.any(String) })
    await using again = await listen(`/v1/databases/${id}/logs/stream?tail=10`)
    expect((await again.until('the same line', ({ event }) => event === 'log')).id).toBe(first.id)
  })

  it("send the VM's metrics each second", async () => {
    await using numbers = await listen(`/v1/databases/${id}/metrics/stream`)
    const { data } = await numbers.until('a snapshot', ({ event }) => event === 'snapshot')
    expect(data.deployments).toHaveLength(1)
    const used = await numbers.until('numbers', ({ event, data: of }) => event === 'metrics' && of.ram_used_bytes > 0)
    expect(used.data.deployment_id).toBe(data.deployments[0].deployment_id)
  })

  it('are hidden from other users', async () => {
    const other = await system.user()
    for (const what of ['logs', 'metrics'])
      expect((await other.get(`/v1/databases/${id}/${what}/stream`)).status).toBe(404)
  })
})
