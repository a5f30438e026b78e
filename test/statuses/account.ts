/**
 * Calls every operation on accounts, projects, members, tokens and notifications, successfully and, where possible,
 * with a conflict (409).
 */
import { TOTP } from 'otpauth'
import { newLinkToken } from '../../src/control/auth/credentials.ts'
import { putLink } from '../../src/control/auth/link-store.ts'
import { hashOfLink } from '../../src/control/auth/links.ts'
import { createVault } from '../../src/lib/vault.ts'
import type { World } from './world.ts'

const password = 'quartz-otter-lantern-42'
const newPassword = 'a long sentence, not common'
export const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEU9ssHxnby8P3/dd2NJHdRNGx7nLhcSyEcsRt51y/JW'

export async function accounts(world: World): Promise<void> {
  const { see, ann } = world
  await see('getCaptcha', 200)
  const email = 'carol@example.com'
  const account = { email, password, captcha_id: '', captcha_answer: '' }
  await see('register', 200, { body: account })
  await see('register', 409, { body: account, how: 'e-mail address of another account' })
  await see('login', 401, { body: { email, password: 'wrong wrong' }, how: 'wrong password' })
  const signedIn = (await see('login', 200, { body: { email, password } })).body
  await see('refreshSession', 401, { body: { refresh_token: 'svc_rt_nothing' }, how: 'unknown refresh token' })
  await see('refreshSession', 200, { body: { refresh_token: signedIn.refresh_token } })
  const { token } = (await see('login', 200, { body: { email, password } })).body
  const carol = { token }
  await see('getMe', 200, carol)
  await see('updateMe', 200, { ...carol, body: { first_name: 'Carol' } })
  await see('sendVerification', 200, carol)
  await see('verifyEmail', 200, { body: { token: await linkFor(world, email, 'verify', null) } })
  await see('sendVerification', 409, { ...carol, how: 'address that is already verified' })
  await see('changeEmail', 200, { ...carol, body: { email: 'caroline@example.com' } })
  await see('verifyEmail', 409, {
    body: { token: await linkFor(world, email, 'change', ann.email) },
    how: 'address taken by another account',
  })
  await see('forgotPassword', 200, { body: { email } })
  await secondFactor(world, token)
  await see('listSessions', 200, carol)
  const reset = { token: await linkFor(world, email, 'reset', null), new_password: newPassword }
  await see('resetPassword', 200, { body: reset })
  const again = (await see('login', 200, { body: { email, password: newPassword } })).body
  const change = { current_password: newPassword, new_password: password }
  await see('changePassword', 200, { token: again.token, body: change })
  const last = (await see('login', 200, { body: { email, password } })).body
  const sessions = (await see('listSessions', 200, { token: last.token })).body
  await see('getSession', 200, { token: last.token, params: { session_id: sessions[0].id } })
  const other = sessions.find((one: { current?: boolean }) => !one.current) ?? sessions[0]
  await see('revokeSession', 200, { token: last.token, params: { session_id: other.id } })
  const end = (await see('login', 200, { body: { email, password } })).body
  await see('logout', 200, { body: { refresh_token: end.refresh_token } })
  const gone = (await see('login', 200, { body: { email, password } })).body
  await see('deleteMe', 200, { token: gone.token, body: { password } })
  await tokens(world)
  const [first] = (await ann.get('/v1/auth/sessions')).body
  world.params['session_id'] = first.id
  await see('listAuditLogs', 200)
  await see('createAnnouncement', 200, { body: { title: 'Maintenance', body: 'Tonight.' } })
  const { notifications } = (await see('listNotifications', 200)).body
  world.params['notification_id'] = notifications[0].id
  await see('getNotification', 200)
  await see('markNotificationRead', 200)
  await see('markAllNotificationsRead', 200)
  await projects(world)
}

/** Returns the token of a link as in an e-mail (for verification or a password reset), without sending the e-mail. */
async function linkFor(world: World, of: string, purpose: 'verify' | 'reset' | 'change', to: string | null) {
  const { config, system } = world
  const token = newLinkToken()
  const now = new Date()
  const link = {
    purpose,
    hash: hashOfLink(createVault(config.secrets), token),
    email: to,
    now,
    expiresAt: new Date(now.getTime() + 60_000),
    olderThan: new Date(now.getTime() + 1000),
  }
  await system.database.db.tx(tx => putLink(tx, of, link))
  return token
}

async function secondFactor({ see }: World, token: string): Promise<void> {
  await see('verifyTotp', 409, { token, body: { code: '000000' }, how: 'no two-factor setup in progress' })
  await see('setupTotp', 200, { token })
  const { secret } = (await see('setupTotpByPost', 200, { token })).body
  const code = new TOTP({ secret }).generate()
  await see('verifyTotp', 200, { token, body: { code } })
  await see('setupTotp', 409, { token, how: 'two-factor authentication is on' })
  await see('setupTotpByPost', 409, { token, how: 'two-factor authentication is on' })
  await see('disableTotp', 200, { token, body: { password } })
  await see('disableTotp', 409, { token, body: { password }, how: 'two-factor authentication is off' })
}

async function tokens({ see, params }: World): Promise<void> {
  const made = (await see('createToken', 200, { body: { name: 'ci' } })).body
  params['token_id'] = made.id
  await see('listTokens', 200)
  await see('getToken', 200)
  const spare = (await see('createToken', 200, { body: { name: 'spare' } })).body
  await see('revokeToken', 200, { params: { token_id: spare.id } })
  const key = (await see('addSshKey', 200, { body: { name: 'laptop', public_key: publicKey } })).body
  await see('addSshKey', 409, {
    body: { name: 'laptop', public_key: publicKey },
    how: 'key that the account already has',
  })
  await see('listSshKeys', 200)
  await see('getSshKey', 200, { params: { key_id: key.id } })
  await see('removeSshKey', 200, { params: { key_id: key.id } })
  params['key_id'] = (await see('addSshKey', 200, { body: { name: 'laptop', public_key: publicKey } })).body.id
}

async function projects(world: World): Promise<void> {
  const { see, ann, bob, params } = world
  await see('listProjects', 200)
  const spare = (await see('createProject', 200, { body: { name: 'Spare' } })).body
  await see('updateProject', 200, { params: { tenant_slug: spare.tenant_id }, body: { name: 'Another name' } })
  await see('deleteProject', 200, { params: { tenant_slug: spare.tenant_id } })
  await see('getProject', 200)
  const invite = (role: string, email = bob.email) => see('inviteMember', 200, { body: { email, role } })
  const withdrawn = (await invite('viewer', 'guest@example.com')).body
  await see('getProjectInvitation', 200, { params: { invitation_id: withdrawn.id } })
  await see('withdrawInvitation', 200, { params: { invitation_id: withdrawn.id } })
  params['invitation_id'] = (await invite('viewer', 'guest@example.com')).body.id
  await see('verifyEmail', 200, { body: { token: await linkFor(world, bob.email, 'verify', null) } })
  const { link } = (await invite('viewer')).body
  const [id = '', secret] = new URL(link).hash.slice(1).split('.')
  await see('listInvitations', 200, { token: bob.token })
  const open = { token: bob.token, params: { invitation_id: id } }
  await see('getInvitation', 200, open)
  const joining = { token: bob.token, params: { invitation_id: id }, body: { secret } }
  await see('acceptInvitation', 200, joining)
  await see('inviteMember', 409, {
    body: { email: bob.email, role: 'viewer' },
    how: 'account that is already a member',
  })
  const { members } = (await see('listMembers', 200)).body
  const idOf = (email: string) => members.find((one: { email: string }) => one.email === email)?.user_id
  params['user_id'] = idOf(ann.email)
  await see('getMember', 200)
  await see('updateMember', 409, { body: { role: 'viewer' }, how: 'only owner of the project' })
  await see('removeMember', 409, { how: 'only owner of the project' })
  await see('updateMember', 200, { params: { user_id: idOf(bob.email) }, body: { role: 'member' } })
  await see('removeMember', 200, { params: { user_id: idOf(bob.email) } })
  await see('removeMember', 403, { token: await tokenOf(ann, ['read']), how: 'read-only token' })
}

export async function tokenOf(owner: World['ann'], scopes: readonly string[]): Promise<string> {
  return (await owner.post('/v1/auth/tokens', { name: scopes.join(' '), scopes })).body.token
}
