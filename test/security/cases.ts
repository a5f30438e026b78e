/**
 * Valid bodies and path parameters of every API operation, for tests that enumerate all operations. These tests fail if
 * an operation has no entry in this file.
 */
import { features } from '../../src/control/app.ts'
import { createLiveStats } from '../../src/control/hosts/index.ts'
import { allOperations } from '../../src/control/operations.ts'
import type { Operation } from '../../src/control/http/operation.ts'
import { newId } from '../../src/lib/ids.ts'
import { type Identity, type Person, startIdentity, testPassword } from '../support/identity.ts'

export const startWholeApi = (options: Parameters<typeof startIdentity>[0] = {}): Promise<Identity> =>
  startIdentity({
    ...options,
    features: (deps, security) => features({ ...deps, live: createLiveStats(deps.clock) }, security),
  })

export interface Case {
  readonly id: string
  readonly operation: Operation
}

/** Returns every operation that the API serves. */
export function everyOperation(api: Identity): readonly Case[] {
  const served = {
    ...allOperations,
    ...Object.assign(
      {},
      ...features({ ...api.deps, live: createLiveStats(api.clock) }, api.security).map(f => f.operations),
    ),
  }
  return Object.entries<Operation>(served).map(([id, operation]) => ({ id, operation }))
}

/** An account with the ids and names of its resources, one for each path parameter. */
export interface Belongings {
  readonly person: Person
  readonly projectId: string
  readonly params: Readonly<Record<string, string>>
  /** A personal access token of the account. */
  readonly pat: string
}

/** Creates an account with a resource of most kinds: app, deployment, access token, database, SSH key and others. */
export async function settle(api: Identity): Promise<Belongings> {
  const person = await api.person()
  const token = person.token
  const ok = async (method: 'GET' | 'POST', path: string, body?: object) => {
    const reply = await api.call(method, path, { token, ...(body ? { body } : {}) })
    if (reply.status !== 200)
      throw new Error(`${method} ${path} answered ${reply.status}: ${JSON.stringify(reply.body)}`)
    return reply.body
  }
  const [project] = (await ok('GET', '/v1/projects')) as unknown as [{ id: string; tenant_id: string }]
  const name = `app-${newId().slice(-8)}`
  const app = await ok('POST', '/v1/apps', { name, git_url: '' })
  const group = `group-${newId().slice(-8)}`
  await ok('POST', '/v1/env-groups', { name: group })
  const deployment = await ok('POST', `/v1/apps/${name}/deploy`, { image: 'example.com/image:1' })
  const pat = await ok('POST', '/v1/auth/tokens', { name: 'for the tests' })
  const [notification] = (await ok('GET', '/v1/notifications'))['notifications']
  const database = await ok('POST', '/v1/databases', { name: 'shop', engine: 'postgres' })
  const key = await ok('POST', '/v1/auth/ssh-keys', { name: 'laptop', public_key: publicKey })
  const guest = `guest-${newId().slice(-8)}@example.com`
  const invitation = await ok('POST', `/v1/projects/${project.tenant_id}/members`, { email: guest, role: 'viewer' })
  return {
    person,
    projectId: project.id,
    pat: String(pat['token']),
    params: {
      tenant_slug: project.tenant_id,
      app_name: name,
      app_id: String(app['id']),
      job_id: String(deployment['job_id']),
      deployment_id: String(deployment['deployment_id']),
      token_id: String(pat['id']),
      session_id: person.sessionId,
      notification_id: notification.id,
      invitation_id: String(invitation['id']),
      user_id: person.id,
      id: String(database['id']),
      branch_name: 'main',
      key_id: String(key['id']),
      // The account has none of the following resources; any id will do.
      volume_id: newId(),
      snapshot_id: newId(),
      build_id: newId(),
      delivery_id: newId(),
      snapshot_name: 'before-lunch',
      rule_id: newId(),
      run_id: newId(),
      job_name: 'nightly',
      host_id: newId(),
      name: 'GREETING',
      group_name: group,
      version: '1',
      domain: 'www.example.com',
      service_name: 'mqtt',
      host: 'ghcr.io',
    },
  }
}

/** An SSH public key whose private key was discarded. */
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEU9ssHxnby8P3/dd2NJHdRNGx7nLhcSyEcsRt51y/JW'

export function pathOf({ id, operation }: Case, params: Readonly<Record<string, string>>): string {
  return operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (value === undefined)
      throw new Error(`${id} has the path parameter ${name}, which test/security/cases.ts does not know`)
    return encodeURIComponent(value)
  })
}

/**
 * A valid body for every operation that has one. The bodies must be harmless, because accounts without resources send
 * them.
 */
const bodies: Readonly<Record<string, object>> = {
  register: { email: 'new@example.com', password: testPassword, captcha_id: 'x', captcha_answer: 'x' },
  login: { email: 'nobody@example.com', password: 'wrong wrong' },
  refreshSession: { refresh_token: 'svc_rt_nothing' },
  logout: { refresh_token: 'svc_rt_nothing' },
  updateMe: { first_name: 'Eve' },
  setHostLabels: { labels: { region: 'eu' } },
  deleteMe: {},
  changePassword: { current_password: 'wrong wrong', new_password: 'a long sentence, not common' },
  verifyEmail: { token: 'svc_link_nothing' },
  changeEmail: { email: 'other@example.com' },
  forgotPassword: { email: 'nobody@example.com' },
  resetPassword: { token: 'svc_link_nothing', new_password: 'a long sentence, not common' },
  verifyTotp: { code: '000000' },
  disableTotp: { password: 'wrong wrong' },
  createToken: { name: 'x' },
  createProject: { name: 'x' },
  updateProject: { name: 'x' },
  inviteMember: { email: 'x@example.com', role: 'viewer' },
  updateMember: { role: 'viewer' },
  acceptInvitation: { secret: 'x' },
  createApp: { name: 'x', git_url: '' },
  updateApp: { port: 8080 },
  scaleApp: { desired_replicas: 1 },
  putAppEnv: { value: 'x' },
  createEnvGroup: { name: 'x' },
  putEnvGroupVariable: { value: 'x' },
  setAppEnvGroups: { groups: [] },
  putAppFile: { path: '/etc/x', content: '' },
  putGitCredential: { kind: 'token', token: 'x' },
  putRegistryCredential: { host: 'quay.io', username: 'x', password: 'x' },
  putTcpService: { port: 1883 },
  addDomain: { name: 'www.example.com' },
  confirmScm: { confirmation: 'x' },
  createAnnouncement: { title: 'x', body: 'x' },
  forkVmSnapshot: { app_name: 'x' },
  execInVm: { command: ['true'] },
  putJob: { schedule: '0 3 * * *', command: ['true'] },
  startRun: { command: ['true'] },
  openVmSession: { command: ['true'] },
  signalVmSession: { signal: 'TERM' },
  createVmDirectory: { path: '/x' },
  moveVmFile: { path: '/x', to: '/y' },
  deploy: { app_name: 'x', image: 'example.com/image:1' },
  deployApp: { image: 'example.com/image:1' },
  createVmSnapshot: { snapshot_name: 'x' },
  attachRuntimeVolume: { volume_id: newId(), mount_point: '/data' },
  detachRuntimeVolume: { volume_id: newId() },
  startMigration: { target_host: 'x', target_uri: 'tcp://x' },
  setBalloon: { target_memory_mib: 512 },
  createSecurityRule: { protocol: 'tcp', port_start: 80, port_end: 80, action: 'allow' },
  createVolume: { name: 'x', size_mib: 1024 },
  updateVolume: { size_mib: 2048 },
  createVolumeSnapshot: { name: 'x' },
  restoreVolume: { snapshot_name: 'x' },
  setVolumeSchedule: { every_minutes: 60, keep: 3 },
  cloneVolume: { name: 'x', snapshot_name: 'y' },
  moveVolume: { target_host: 'x' },
  attachVolume: { volume_id: newId() },
  createDatabase: { name: 'x', engine: 'postgres' },
  updateDatabase: { memory_mib: 1024 },
  createDatabaseSnapshot: { name: 'x' },
  restoreDatabase: { snapshot_name: 'x' },
  restoreDatabaseTo: { at: '2026-01-01T00:00:00Z' },
  setDatabaseBackupTarget: { endpoint: 'https://s3.example', bucket: 'abc', access_key: 'x', secret_key: 'y' },
  createTunnelPassword: {},
  createDatabaseBranch: { name: 'x', at: 'latest' },
  addSshKey: { name: 'x', public_key: publicKey },
  reAttach: {},
  validateGenerations: { tenants: [] },
  setBudget: { monthly_cents: 1_000_000 },
  chooseCheckoutProduct: { product_id: 'x' },
  createCheckout: { product_id: 'x' },
}

export function bodyOf({ id, operation }: Case): object | undefined {
  // Any body will do: the operation checks the ownership of the app before the content.
  if (operation.upload) return {}
  if (!operation.body || operation.rawBody) return undefined
  const body = bodies[id]
  if (!body) throw new Error(`${id} has a body without an example in test/security/cases.ts`)
  return body
}
