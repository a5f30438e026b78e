import { expect, it } from 'vitest'
import { testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { refresh, since } from './store.ts'

it('a concurrent route refresh does not undo a switch to another deployment', async () => {
  await using system = await testSystem()
  const user = await system.user()
  const app = (await user.post('/v1/apps', { name: 'hello', git_url: '' })).body
  const { job_id } = (await user.post('/v1/apps/hello/deploy', { image: 'example/app:1' })).body
  await until(async () => (await user.get(`/v1/apps/hello/deployments/${job_id}`)).body.status === 'running', {
    what: 'the deployment runs',
  })
  const { db } = system.database
  const name = (suffix: string) => `routing.test.${suffix}`
  const state = async () => (await since(db, 0)).routes.find(route => route.appId === app.id)?.state

  const switched = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const first = db.tx(async tx => {
    await tx.run({ name: name('switch'), text: 'UPDATE app SET active_deployment_id = NULL WHERE id = $1' }, [app.id])
    await refresh(tx, app.id)
    switched.resolve()
    await go.promise
  })
  await switched.promise
  // This transaction's snapshot of the database is older than the switch, and its refresh has to wait until the switch
  // is committed.
  const second = db.tx(tx => refresh(tx, app.id))
  await until(
    async () =>
      (
        await db.one<{ waiting: number }>({
          name: name('waiting'),
          text: `SELECT count(*)::int AS waiting FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        })
      ).waiting > 0,
    { what: 'the second refresh waits' },
  )
  go.resolve()
  await Promise.all([first, second])
  expect(await state()).toBe('down')
})
