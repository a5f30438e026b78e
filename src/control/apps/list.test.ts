import { expect, it } from 'vitest'
import { testSystem } from '../../../test/support/system.ts'
import { statement } from '../../db/db.ts'

// Unusual values for the fields of an app: quotes, a backslash, a line separator, an emoji, a time with microseconds in
// another zone, the largest number.
const anything = statement(
  'test.anything',
  `UPDATE app SET git_url = $1, git_branch = $1, health_check_path = $1, scm_repo_full_name = $1, git_submodules = true,
     port = 65535, drain_timeout = 300, desired_replicas = 2, min_replicas = 0, max_replicas = 10, autoscaling_enabled = true,
     cpu_threshold = 33.25, mem_threshold = 0.1, scale_state = 'warming_up', scm_installation_id = 9007199254740991,
     scm_repo_id = 0, created_at = '2024-02-29 23:59:59.999999+05:30'
   WHERE name = 'full'`,
)

// PostgreSQL renders the list of apps, but `appView` renders a single app. This test fails if one of the two omits a
// field or renders it differently.
it('an app in the list equals the app read alone, whatever its fields contain', async () => {
  await using system = await testSystem({ agents: 0 })
  const user = await system.user()
  const read = async <T>(path: string) => (await user.get<T>(path)).body
  for (const name of ['plain', 'full']) await user.post('/v1/apps', { name, git_url: '' })
  await system.database.db.run(anything, ['ä"\\\u2028🚀</script>'])
  const listed = await read<{ name: string }[]>('/v1/apps')
  expect(listed.map(({ name }) => name)).toEqual(['full', 'plain'])
  for (const app of listed) expect(app).toEqual(await read(`/v1/apps/${app.name}`))
  expect(await read('/v1/apps?limit=1&offset=1')).toEqual(listed.slice(1))
  expect(await read('/v1/apps?offset=2')).toEqual([])
})

const setPort = statement('test.setPort', 'UPDATE app SET port = $2 WHERE name = $1')

const setFailed = statement(
  'test.setFailed',
  `UPDATE deployment SET outcome = 'failed', error_message = 'It exited.' WHERE app_id = (SELECT id FROM app WHERE name = $1)`,
)

// The server does not render an unchanged page again, so every kind of change must invalidate the cached page.
it('the app list is always current after any kind of change', async () => {
  await using system = await testSystem({ agents: 0 })
  const user = await system.user()
  const { db } = system.database
  const read = async () => {
    const [first, second] = [await user.get('/v1/apps'), await user.get('/v1/apps')]
    expect(second.body).toEqual(first.body)
    expect(second.headers.get('etag')).toBe(first.headers.get('etag'))
    return Object.fromEntries(first.body.map(({ name, port }: { name: string; port: number }) => [name, port]))
  }
  const create = (name: string) => user.post('/v1/apps', { name, git_url: '' })
  expect(await read()).toEqual({})
  await create('a')
  await db.run(setPort, ['a', 1])
  expect(await read()).toEqual({ a: 1 })
  await create('b')
  await db.tx(async tx => {
    // Changes the same row twice in one transaction.
    await tx.run(setPort, ['b', 2])
    await tx.run(setPort, ['b', 3])
  })
  expect(await read()).toEqual({ a: 1, b: 3 })
  await db.tx(async tx => {
    await tx.run(setPort, ['a', 4])
    expect(await read(), 'nothing is committed yet').toEqual({ a: 1, b: 3 })
  })
  expect(await read()).toEqual({ a: 4, b: 3 })
  const undone = db.tx(async tx => {
    await tx.run(setPort, ['a', 5])
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  expect(await read()).toEqual({ a: 4, b: 3 })
  // The failure of a deployment changes the listed app, but not the app's row.
  const failureOf = async () =>
    (await user.get('/v1/apps')).body.find(({ name }: { name: string }) => name === 'a').failure
  await user.post('/v1/apps/a/deploy', { image: 'docker.io/library/nginx:1.27' })
  expect(await failureOf()).toBeNull()
  await db.run(setFailed, ['a'])
  expect([await failureOf(), (await user.get('/v1/apps/a')).body.failure]).toEqual(['It exited.', 'It exited.'])
  // The cached page of one project must not be returned to another project.
  expect((await (await system.user()).get('/v1/apps')).body).toEqual([])
  await user.delete('/v1/apps/b')
  expect(await read()).toEqual({ a: 4 })
})
