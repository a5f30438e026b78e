// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
/**
 * Clicks each button on the pages of volumes, databases, projects and the account once and checks its effect, except
 * those that dashboard.test.ts clicks.
 */
import { expect, it, vi } from 'vitest'
import { openBrowser } from '../support/browser.ts'
import { type TestSystem, testSystem, type TestUser } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { browserSuite, prepare, type Walker, walker } from '../support/walker.ts'

browserSuite('settings in the dashboard', () => {
  vi.setConfig({ testTimeout: 120_000 })
  let system: TestSystem
  let grace: TestUser
  let ada: Walker
  prepare(async (browser, undo) => {
    system = undo.use(await testSystem())
    grace = await system.user('grace@example.com')
    ada = undo.use(await walker(system, browser))
    await ada.user.post('/v1/volumes', { name: 'data', size_mib: 64 })
    await ada.user.post('/v1/databases', { name: 'orders', engine: 'postgres' })
  })

  const databaseRuns = () =>
    until(async () => (await ada.user.get('/v1/databases')).body[0].status === 'running', {
      what: 'the database runs',
      timeoutMs: 40_000,
      everyMs: 100,
    })

  it('volume page: snapshots are scheduled, taken, restored and deleted, and the volume is deleted', async () => {
    await ada.open('/volumes', 'Volumes')
    await ada.page.getByRole('link', { name: 'data', exact: true }).click()
    await ada.field('How often').selectOption('1440')
    await ada.field('Snapshots kept').fill('3')
    await ada.button('Save').click()
    await ada.says('Schedule saved')
    await ada.button('Take snapshot').click()
    await ada.send({ Name: 'monday' }, 'Take snapshot')
    await ada.row(/monday Ready/i).waitFor()
    await ada.button('Restore monday').click()
    await ada.confirm('Restore', 'monday')
    await ada.says('Restoring monday on data')
    await ada.button('Delete monday').click()
    await ada.confirm('Delete', 'monday')
    await ada.says('No snapshots')
    await ada.page.getByRole('button', { name: 'Delete', exact: true }).click()
    await ada.confirm('Delete', 'data')
    await ada.page.waitForURL('**/volumes')
    await ada.says('No volumes yet')
  })

  it('database page: a database is resized, backed up, branched, promoted, suspended and deleted', async () => {
    await databaseRuns()
    await ada.open('/databases', 'Databases')
    await ada.page.getByRole('link', { name: 'orders' }).click()
    await ada.page.getByRole('log').getByText('listening on port').first().waitFor()
    await ada.button('Resize').click()
    await ada.send({ Memory: '2048' }, 'Resize')
    await ada.says('1 vCPU · 2 GiB')
    await databaseRuns()
    await ada.page.reload()
    await ada.button('Take backup').click()
    await ada.send({ Name: 'first' }, 'Take backup')
    await ada.row(/first Ready/i).waitFor()
    await ada.button('New branch').click()
    await ada.send({ Name: 'try-it', From: 'first' }, 'Create branch')
    await ada.row(/try-it Ready/i).waitFor()
    await ada.button('Promote try-it').click()
    await ada.confirm('Promote', 'try-it')
    await ada.row(/try-it Current/i).waitFor()
    await ada.button('Delete main').click()
    await ada.confirm('Delete', 'main')
    await ada.row(/^main/).waitFor({ state: 'detached' })
    await databaseRuns()
    await ada.page.reload()
    await ada.button('Suspend').click()
    await ada.button('Resume').waitFor()
    await ada.page.getByRole('button', { name: 'Delete', exact: true }).click()
    await ada.confirm('Delete', 'orders')
    await ada.page.waitForURL('**/databases')
  })

  it('project pages: a project is created, renamed and deleted, and a member is invited and removed', async () => {
    await ada.button(/choose another project/).click()
    await ada.page.getByRole('menuitem', { name: /New project/ }).click()
    await ada.send({ Name: 'Shop' }, 'Create project')
    await ada.page.getByRole('link', { name: 'Settings', exact: true }).click()
    await ada.page.getByRole('heading', { level: 1, name: 'Project settings' }).waitFor()
    await ada.page.getByRole('main').getByLabel('Name', { exact: true }).fill('Corner shop')
    await ada.button('Save').click()
    await ada.says('Project renamed')
    await ada.page.getByRole('link', { name: 'Members' }).click()
    await ada.button('Invite').click()
    await ada.send({ Email: 'grace@example.com', Role: 'viewer' }, 'Invite')
    await ada.button('Withdraw the invitation of grace@example.com').click()
    await ada.row(/grace@example.com/).waitFor({ state: 'detached' })
    await ada.button('Invite').click()
    await ada.send({ Email: 'grace@example.com', Role: 'viewer' }, 'Invite')
    // Invite again through the API, because its response contains the link that would have been sent by e-mail.
    const [, , home] = new URL(ada.page.url()).pathname.split('/')
    const { body: invited } = await ada.user.post(`/v1/projects/${home}/members`, {
      email: 'grace@example.com',
      role: 'viewer',
    })
    const [invitationId, secret] = new URL(invited.link).hash.slice(1).split('.')
    await grace.post(`/v1/invitations/${invitationId}/accept`, { secret })
    await ada.page.reload()
    await ada.field('Role of grace@example.com').selectOption('member')
    await ada.says('grace@example.com is now member')
    await ada.button('Remove grace@example.com').click()
    await ada.confirm('Remove', 'grace@example.com')
    await ada.row(/grace@example.com/).waitFor({ state: 'detached' })
    await ada.page.getByRole('link', { name: 'Settings', exact: true }).click()
    const remove = ada.button(/^Delete /)
    const slug = ((await remove.textContent()) ?? '').replace('Delete ', '')
    await remove.click()
    await ada.confirm('Delete', slug)
    await ada.page.getByRole('heading', { level: 1, name: 'Apps' }).waitFor()
  })

  it('billing page: a budget is set', async () => {
    await ada.open('/billing', 'Billing')
    await ada.button('Set a budget').click()
    await ada.dialog.getByLabel(/^Amount/).fill('25')
    await ada.send({}, 'Save')
    await ada.page.reload()
    await ada.says(/25/)
  })

  it('notifications page: unread notifications are filtered and marked as read, and the badge disappears', async () => {
    await ada.open('/notifications', 'Notifications')
    await ada.page.getByRole('button', { name: /^Notifications, \d+ unread$/ }).waitFor()
    await ada.page.getByRole('switch', { name: 'Only unread' }).click()
    await ada.button('Mark all as read').click()
    await ada.says('Nothing unread')
    await ada.page.getByRole('button', { name: 'Notifications', exact: true }).waitFor()
  })

  it('audit log page: rows are filtered, and all fields of a row are shown', async () => {
    await ada.open('/audit', 'Audit log')
    await ada.field('Action').fill('volume.create')
    await ada.button('Details of volume.create').click()
    await ada.dialog.getByText('"action": "volume.create"').waitFor()
    await ada.dialog.getByRole('button', { name: 'Close' }).click()
    await ada.field('Action').fill('nothing.like.it')
    await ada.says('No matching entries')
  })

  it('account pages: profile and theme are saved, and SSH keys, tokens and sessions are removed', async () => {
    await ada.open('/account', 'Account')
    await ada.field('First name').fill('Ada')
    await ada.field('Picture URL').fill('http://pictures.example.com/ada.png')
    await ada.button('Save').click()
    await ada.says('must be an https URL')
    await ada.field('Picture URL').fill('https://pictures.example.com/ada.png')
    await ada.button('Save').click()
    await ada.says('Profile saved')
    expect((await ada.user.get('/v1/auth/me')).body.avatar_url).toBe('https://pictures.example.com/ada.png')
    await ada.page.getByRole('button', { name: 'Account', exact: true }).click()
    await ada.page.getByRole('menuitem', { name: 'Dark' }).click()
    expect(await ada.page.locator('html').getAttribute('data-theme')).toBe('dark')
    await ada.open('/account/ssh-keys', 'Account')
    await ada.button('Add key').click()
    await ada.send({ Name: 'laptop', 'Public key': publicKey }, 'Add key')
    await ada.button('Remove laptop').click()
    await ada.confirm('Remove', 'laptop')
    await ada.says('No keys')
    await ada.user.post('/v1/auth/tokens', { name: 'CI', scopes: ['read'] })
    await ada.open('/account/tokens', 'Account')
    await ada.button('Revoke CI').click()
    await ada.confirm('Revoke', 'CI')
    await ada.says('No tokens')
    await ada.open('/account/sessions', 'Account')
    const others = ada.page.getByRole('listitem').filter({ hasNotText: 'Current' }).filter({ hasText: 'Sign out' })
    await others.first().waitFor()
    const before = await others.count()
    await others.first().getByRole('button', { name: 'Sign out' }).click()
    await until(async () => (await others.count()) === before - 1, { what: 'one session to end' })
  })

  it('project settings: registry credentials are added and removed', async () => {
    const { project } = ada.user
    await ada.open(`/projects/${project}`, 'Project settings')
    await ada.button('Add registry').click()
    await ada.send({ Registry: 'ghcr.io', 'User name': 'ada', 'Password or token': 'a-reading-token' }, 'Save')
    await ada.button('Remove ghcr.io').click()
    await ada.confirm('Remove', 'ghcr.io')
    await ada.says('No registries')
    await ada.page.reload()
    await ada.says('No registries')
  })

  it('account pages: the password is changed, and the account is deleted', async () => {
    const other = await walker(system, await openBrowser(), {}, 'leaver@example.com')
    await other.open('/account/security', 'Account')
    await other.field('Current password').fill(other.user.password)
    await other.field('New password').fill('a-lantern-for-the-otter-43')
    await other.button('Change password').click()
    await other.says('Password changed')
    await other.open('/account', 'Account')
    await other.button('Delete account').click()
    await other.dialog.getByLabel('Password', { exact: true }).fill('a-lantern-for-the-otter-43')
    await other.confirm('Delete', 'leaver@example.com')
    await other.page.waitForURL('**/signin**')
    await other[Symbol.asyncDispose]()
  })

  it('no page has logged an error', () => expect(ada.complaints).toEqual([]))
})

/** An SSH public key whose private key was discarded. */
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl test'
