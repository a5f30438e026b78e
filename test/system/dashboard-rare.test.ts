// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
/** Rarely used actions in the dashboard, such as cancelling, restoring, paying and uploading a folder. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TOTP } from 'otpauth'
import { expect, it, vi } from 'vitest'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { openBrowser } from '../support/browser.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { browserSuite, prepare, type Walker, walker } from '../support/walker.ts'

browserSuite('rarely used buttons of the dashboard', () => {
  vi.setConfig({ testTimeout: 120_000 })
  let system: TestSystem
  let ada: Walker
  prepare(async (browser, undo) => {
    const { billing } = parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8), MOTE_BILLING_PROVIDER: 'sandbox' })
    system = undo.use(
      await testSystem({ agents: 0, config: { billing, defaultPlan: 'free', registry: 'registry.example' } }),
    )
    const fake = { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0, copyMs: 60_000 }
    const names = ['one', 'two']
    for (const hostName of names) await system.addAgent({ fake, hostName })
    ada = undo.use(await walker(system, browser))
    await ada.user.post('/v1/billing/products/refresh')
    await ada.user.post('/v1/apps', { name: 'web', git_url: '' })
  })

  const newest = async (): Promise<{ status: string; job_id: string }> =>
    (await ada.user.get('/v1/apps/web/deployments')).body[0]
  const openNewest = async () => {
    const { job_id } = await newest()
    await ada.open(`/apps/web/deployments/${job_id}`, /./)
  }

  it('a message on any page reports that an app is live, and links to the app', async () => {
    await ada.open('/apps', 'Apps')
    // Wait until the page has loaded its data and opened the event stream: earlier changes are not reported.
    await ada.page.getByRole('link', { name: 'web', exact: true }).waitFor()
    await ada.page
      .waitForResponse(response => response.url().includes('/v1/workspace'), { timeout: 1 })
      .catch(() => undefined)
    await ada.user.post('/v1/apps/web/deploy', { image: 'nginx:1.27' })
    const messages = ada.page.getByRole('region', { name: 'Messages' })
    await messages.getByText('web is live').waitFor()
    await messages.getByRole('button', { name: 'Show' }).click()
    await ada.page.waitForURL('**/apps/web**')
  })

  it('a VM move is cancelled while it copies memory', async () => {
    await openNewest()
    await ada.button('Move …').click()
    await ada.dialog.getByRole('button', { name: 'Move' }).click()
    await ada.button('Cancel the move').click()
    await ada.page
      .getByText(/^Cancelled$/i)
      .first()
      .waitFor()
    expect((await newest()).status).toBe('running')
  })

  it('the hosts page shows what is still on a draining host, and what each item waits for', async () => {
    const { id } = (await ada.user.post('/v1/volumes', { name: 'ledger', size_mib: 32 })).body
    await ada.user.post(`/v1/volumes/${id}/snapshots`, { name: 'first' })
    const place = async () => (await ada.user.get(`/v1/volumes/${id}/move`)).body.host_id
    const there = await until(place, { what: 'the volume to be placed' })
    const hosts: { id: string; name: string }[] = (await ada.user.get('/v1/admin/hosts')).body
    const other = hosts.find(one => one.id !== there)?.id
    await ada.user.post(`/v1/admin/hosts/${other}/cordon`)
    await ada.open('/hosts', 'Hosts')
    const name = hosts.find(one => one.id === there)?.name ?? ''
    await ada.button(`Actions for ${name}`).click()
    await ada.page.getByRole('menuitem', { name: 'Drain …' }).click()
    await ada.confirm('Drain', name)
    const left = ada.page
      .getByRole('list', { name: 'Still on this host' })
      .getByRole('listitem')
      .filter({ hasText: 'ledger' })
    await left.getByText('No other host has a storage pool with room for it').waitFor()
    await left.getByText(/^staying$/i).waitFor()
    await ada.user.post(`/v1/admin/hosts/${other}/uncordon`)
    await until(async () => (await place()) === other, { what: 'the volume to leave the host', timeoutMs: 60_000 })
    await ada.open('/hosts', 'Hosts')
    await left.waitFor({ state: 'detached' })
    await ada.user.post(`/v1/admin/hosts/${there}/uncordon`)
    await ada.user.delete(`/v1/volumes/${id}`)
  })

  it('a deployment that does not become healthy is cancelled', async () => {
    await ada.user.call('PUT', '/v1/apps/web/env/MOTE_FAKE', { value: 'unhealthy' })
    await ada.user.post('/v1/apps/web/deploy', { image: 'nginx:1.28' })
    await openNewest()
    await ada.page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await until(async () => (await newest()).status === 'cancelled', {
      what: 'the deployment to be cancelled',
    })
    await ada.says(/^Cancelled$/i)
    await ada.user.delete('/v1/apps/web/env/MOTE_FAKE')
  })

  it('a folder is uploaded, and the outcome of its build is shown', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mote-shop-'))
    try {
      await writeFile(join(folder, 'index.html'), 'hello')
      await writeFile(join(folder, '.gitignore'), '*.secret\n')
      await writeFile(join(folder, 'a.secret'), 'never sent')
      await ada.open('/apps/new', 'New app')
      await ada.page.getByRole('radio', { name: /Folder/ }).click()
      await ada.field('Name').fill('from-a-folder')
      await ada.field('Folder').setInputFiles(folder)
      await ada.says(/3 files/)
      const sent = ada.page.waitForResponse(response => response.url().endsWith('/v1/apps/from-a-folder/source'))
      await ada.button('Create and deploy').click()
      expect(await (await sent).json()).toMatchObject({ files: 2 })
      await ada.page.waitForURL('**/apps/from-a-folder/deployments/**')
      await ada.page.getByRole('log').getByText('only simulates VMs').waitFor()
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it('a database is restored from a backup', async () => {
    await ada.user.post('/v1/databases', { name: 'orders', engine: 'postgres' })
    const running = () =>
      until(async () => (await ada.user.get('/v1/databases')).body[0].status === 'running', {
        what: 'the database runs',
        timeoutMs: 40_000,
        everyMs: 100,
      })
    await running()
    const { id } = (await ada.user.get('/v1/databases')).body[0]
    await ada.user.post(`/v1/databases/${id}/backups/snapshots`, { name: 'first' })
    await ada.open(`/databases/${id}`, 'orders')
    await ada.row(/first Ready/i).waitFor()
    await ada.button('Restore first').click()
    await ada.confirm('Restore', 'first')
    await ada.says('Restoring first')
    await ada.row(/before-restore-/).waitFor()
    await running()
  })

  it('values are copied to the clipboard', async () => {
    await ada.page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await ada.open('/apps/web/network', 'web')
    const box = ada.page.getByRole('main').locator('code').first()
    await ada.page
      .getByRole('button', { name: /^Copy / })
      .first()
      .click()
    await ada.button('Copied').waitFor()
    expect(await ada.page.evaluate<string>('navigator.clipboard.readText()')).toBe(await box.textContent())
  })

  it('a project gets the chosen plan after payment in the test checkout', async () => {
    // Redirect requests for the configured public URL, because the server has another port in this test.
    await ada.page.route('http://localhost:7070/**', route => {
      const { pathname, search } = new URL(route.request().url())
      return route.fulfill({
        status: 302,
        headers: { location: `${new URL(ada.page.url()).origin}${pathname}${search}` },
      })
    })
    await ada.open('/billing', 'Billing')
    await ada.button('Choose Pro').click()
    await ada.page.waitForURL('**/v1/billing/sandbox/checkout**')
    await ada.page.getByRole('button').first().click()
    await ada.page.waitForURL('**/billing**')
    await until(async () => (await ada.user.get('/v1/billing')).body.tier_slug === 'pro', {
      what: 'the plan to be pro',
    })
    expect(ada.complaints.splice(0).every(one => one.includes('//localhost:7070/'))).toBe(true)
    await ada.open('/billing', 'Billing')
    await ada.page.getByText('of 25', { exact: false }).first().waitFor()
  })

  it('an invitation is accepted through its e-mailed link', async () => {
    const grace = await walker(system, await openBrowser(), {}, 'grace@example.com')
    const invited = { email: 'grace@example.com', role: 'viewer' }
    const made = (await ada.user.post(`/v1/projects/${ada.user.project}/members`, invited)).body
    // Grace's e-mail address is not verified, so she can only accept through the link in the e-mail.
    await grace.open('/account', 'Account')
    expect(await grace.page.getByRole('button', { name: 'Accept' }).count()).toBe(0)
    const { pathname, hash } = new URL(String(made.link))
    await grace.page.goto(`${pathname}${hash}`)
    await grace.button('Accept').click()
    await grace.page.getByRole('heading', { level: 1, name: 'Apps' }).waitFor()
    const { body } = await ada.user.get(`/v1/projects/${ada.user.project}/members`)
    expect(JSON.stringify(body)).toContain('grace@example.com')
    expect(grace.complaints).toEqual([])
    await grace[Symbol.asyncDispose]()
  })

  it('the second factor is disabled with the password', async () => {
    const { body } = await ada.user.post('/v1/auth/2fa/setup')
    const secret = String(body.secret)
    expect((await ada.user.post('/v1/auth/2fa/verify', { code: new TOTP({ secret }).generate() })).status).toBe(200)
    await ada.open('/account/security', 'Account')
    await ada.button('Switch off').click()
    await ada.send({ Password: ada.user.password }, 'Switch off')
    await ada.button('Switch on').waitFor()
    expect((await ada.user.get('/v1/auth/me')).body.totp_enabled).toBe(false)
  })

  it('no page has logged an error', () => expect(ada.complaints).toEqual([]))
})
