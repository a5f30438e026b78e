import { expect, it } from 'vitest'
import { testSystem } from '../../../test/support/system.ts'
import { statement } from '../../db/db.ts'

const fail = statement(
  'test.fail',
  `UPDATE deployment SET outcome = 'failed', error_message = 'It exited.', stopped_at = created_at + interval '2 seconds' WHERE job_id = $1`,
)

it('the API reports the differences between two deployments, the author of each, and why the newest failed', async () => {
  await using system = await testSystem({ agents: 0 })
  const user = await system.user()
  const get = async (path: string) => (await user.get(path)).body
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  const setEnv = (name: string, value: string) => user.call('PUT', `/v1/apps/web/env/${name}`, { value })
  for (const name of ['SAME', 'OTHER', 'GONE']) await setEnv(name, 'a')
  const deploy = async (body: object) => (await user.post('/v1/apps/web/deploy', body)).body.job_id
  const setFile = (path: string, file: object) => user.call('PUT', '/v1/apps/web/files', { path, ...file })
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  for (const path of ['/etc/same', '/etc/other', '/etc/gone', '/etc/mode'])
    await setFile(path, { content: base64('a') })
  await setFile('/etc/value', { variable: 'OTHER' })
  await setFile('/etc/steady', { variable: 'SAME' })
  const first = await deploy({ image: 'docker.io/library/nginx:1.26' })

  expect(await get(`/v1/apps/web/deployments/${first}/diff`)).toMatchObject({
    base: null,
    fields: expect.arrayContaining([{ field: 'image', from: null, to: 'docker.io/library/nginx:1.26' }]),
    env_added: ['GONE', 'OTHER', 'SAME'],
    files_added: ['/etc/gone', '/etc/mode', '/etc/other', '/etc/same', '/etc/steady', '/etc/value'],
  })

  // The variable is set again to the same value, which changes its encrypted bytes.
  await setEnv('SAME', 'a')
  await setEnv('OTHER', 'b')
  await setEnv('NEW', 'a')
  await user.delete('/v1/apps/web/env/GONE')
  await user.call('PATCH', '/v1/apps/web', { port: 8080, health_check_path: '/health' })
  await setFile('/etc/same', { content: base64('a') })
  await setFile('/etc/other', { content: base64('b'), secret: true })
  await setFile('/etc/mode', { content: base64('a'), mode: '0400' })
  await setFile('/etc/new', { content: base64('a') })
  await user.delete('/v1/apps/web/files?path=/etc/gone')
  const second = await deploy({ image: 'docker.io/library/nginx:1.27', memory_mib: 1024 })
  const diff = {
    job_id: second,
    base: first,
    fields: [
      { field: 'image', from: 'docker.io/library/nginx:1.26', to: 'docker.io/library/nginx:1.27' },
      { field: 'memory_mib', from: '512', to: '1024' },
      { field: 'health_check_path', from: '/', to: '/health' },
    ],
    env_added: ['NEW'],
    env_removed: ['GONE'],
    env_changed: ['OTHER'],
    files_added: ['/etc/new'],
    files_removed: ['/etc/gone'],
    files_changed: ['/etc/mode', '/etc/other', '/etc/value'],
  }
  expect(await get(`/v1/apps/web/deployments/${second}/diff`)).toEqual(diff)
  expect(await get(`/v1/apps/web/deployments/${second}/diff?base=${first}`)).toEqual(diff)
  expect((await get(`/v1/apps/web/deployments/${second}/diff?base=${second}`)).fields).toEqual([])
  expect((await user.get(`/v1/apps/web/deployments/${second}/diff?base=job-0`)).status).toBe(404)
  const stranger = await system.user()
  expect((await stranger.get(`/v1/apps/web/deployments/${second}/diff`)).status).toBe(404)

  await system.database.db.run(fail, [second])
  const [newest] = await get('/v1/apps/web/deployments')
  const { email } = await get('/v1/auth/me')
  expect(newest).toMatchObject({ author: email, started_at: null, duration_ms: 2000, status: 'failed' })
  expect((await get('/v1/apps'))[0].failure).toBe('It exited.')
})
