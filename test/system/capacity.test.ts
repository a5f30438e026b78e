/** More concurrent deployments than the hosts have capacity for, through the API and a real agent. */
import { expect, it } from 'vitest'
import { testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const counts = {
  name: 'test.placement',
  text: `SELECT count(*) FILTER (WHERE host_id IS NOT NULL)::int AS placed, count(*)::int AS all FROM vm WHERE want <> 'absent'`,
}
const room = { name: 'test.room', text: `SELECT used_vcpus AS used, vcpus FROM host` }

it('exactly as many concurrent deployments as fit are placed, and another one once one of them has ended', async () => {
  await using system = await testSystem({ agents: 0, config: { cpuOvercommit: 1 } })
  await system.addAgent({ capacity: { vcpus: 5, memoryMib: 100_000, diskMib: 1_000_000 } })
  const user = await system.user()
  const { db } = system.database
  await until(
    async () =>
      (await db.rows({ name: 'test.offers', text: `SELECT id FROM host WHERE hypervisors @> '[{"available": true}]'` }))
        .length === 1,
    {
      what: 'the host to join',
    },
  )
  const names = Array.from({ length: 20 }, (_, n) => `app-${n}`)
  const answers = await Promise.all(
    names.map(name => user.post('/v1/deploy', { app_name: name, image: 'example/app:1' })),
  )
  expect(answers.map(({ status }) => status)).toEqual(names.map(() => 200))
  const placed = async () => (await db.one<{ placed: number; all: number }>(counts)).placed
  await until(async () => (await placed()) === 5, { what: 'the host to be full' })
  const running = async () =>
    (await user.get('/v1/deployments/active?limit=100')).body.filter((d: { status: string }) => d.status === 'running')
  await until(async () => (await running()).length === 5, { what: 'the placed VMs to run' })

  const [first] = await running()
  const waiting = (await user.get('/v1/deployments/active?limit=100')).body.find(
    (d: { status: string }) => d.status === 'pending',
  )
  const why = async () =>
    (await user.get(`/v1/apps/${waiting.app_name}/deployments/${waiting.job_id}`)).body.error_message
  await until(async () => String(await why()).includes('not enough vCPUs'), { what: 'the reason why it waits' })

  await user.delete(`/v1/apps/${first.app_name}`)
  await until(
    async () =>
      (await placed()) === 5 && (await running()).every((d: { app_name: string }) => d.app_name !== first.app_name),
    {
      what: 'the next VM to be placed',
    },
  )
  expect(await db.one(room)).toEqual({ used: 5, vcpus: 5 })
}, 120_000)
