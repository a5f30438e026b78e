/** Runs one journey with openapi-fetch and the types that openapi-typescript generates. */
import createClient, { type Middleware } from 'openapi-fetch'
import type { paths } from './mote.ts'

const [baseUrl = '', email = '', password = ''] = process.argv.slice(2)
let token = ''
const authorize: Middleware = {
  onRequest({ request }) {
    if (token !== '') request.headers.set('authorization', `Bearer ${token}`)
    return request
  },
}
const client = createClient<paths>({ baseUrl })
client.use(authorize)

function need<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(JSON.stringify(error))
  return data
}

need(await client.POST('/v1/auth/register', { body: { email, password, captcha_id: '', captcha_answer: '' } }))
token = need(await client.POST('/v1/auth/login', { body: { email, password } })).token ?? ''
const project = need(await client.POST('/v1/projects', { body: { name: 'Journey' } }))
const inProject = { header: { 'X-Project': project.tenant_id } }
const app_name = 'journey'
need(await client.POST('/v1/apps', { params: inProject, body: { name: app_name, git_url: '', drain_timeout: 0 } }))
const made = need(
  await client.POST('/v1/apps/{app_name}/deploy', {
    params: { ...inProject, path: { app_name } },
    body: { image: 'oci:hello', memory_mib: 512 },
  }),
)
const job = { ...inProject, path: { app_name, job_id: made.job_id } }
const deployment = need(
  await client.GET('/v1/apps/{app_name}/deployments/{job_id}', {
    params: { ...job, query: { wait: 'running', timeout: 60 } },
  }),
)
const end = new AbortController()
const logs = need(
  await client.GET('/v1/apps/{app_name}/deployments/{job_id}/logs', {
    params: job,
    parseAs: 'stream',
    signal: end.signal,
  }),
)
const first = await logs?.getReader().read()
end.abort()
const volume = need(await client.POST('/v1/volumes', { params: inProject, body: { name: 'data', size_mib: 1024 } }))
const volumes = need(await client.GET('/v1/volumes', { params: inProject }))
need(await client.DELETE('/v1/volumes/{volume_id}', { params: { ...inProject, path: { volume_id: volume.id } } }))
const pat = need(await client.POST('/v1/auth/tokens', { body: { name: 'journey', scopes: ['read'] } }))
need(await client.DELETE('/v1/auth/tokens/{token_id}', { params: { path: { token_id: pat.id } } }))
const refused = await client.POST('/v1/apps', { params: inProject, body: { name: app_name, git_url: '' } })
need(await client.DELETE('/v1/apps/{app_name}', { params: { ...inProject, path: { app_name } } }))
const observed = {
  status: deployment.status,
  logs: String(new TextDecoder().decode(first?.value)).includes('event: snapshot'),
  volumes: volumes.map(one => one.name),
  refused: refused.error?.code,
}
console.log(JSON.stringify(observed))
