// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
/**
 * Clicks each button on the pages of apps, deployments, hosts and repositories once and checks its effect, except those
 * that dashboard.test.ts clicks.
 */
import { expect, it, vi } from 'vitest'
import { fakeHost as sourceHost } from '../support/control/scm.ts'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { browserSuite, prepare, type Walker, walker } from '../support/walker.ts'

type SourceHost = Awaited<ReturnType<typeof sourceHost>>

browserSuite('the buttons of the dashboard', () => {
  vi.setConfig({ testTimeout: 120_000 })
  let source: SourceHost
  let system: TestSystem
  let ada: Walker
  prepare(async (browser, undo) => {
    source = undo.use(await sourceHost())
    const { scm } = parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8), ...source.env })
    system = undo.use(
      await testSystem({
        agents: 2,
        config: { scm, privateGitHosts: true, tcpPorts: { first: 20_000, last: 20_009 }, tcpTlsPort: 20_883 },
      }),
    )
    ada = undo.use(await walker(system, browser))
    await ada.user.post('/v1/apps', { name: 'web', git_url: '' })
    await ada.user.post('/v1/volumes', { name: 'data', size_mib: 64 })
    await ada.user.post('/v1/apps/web/deploy', { image: 'nginx:1.27' })
    await until(async () => (await newest('web')).status === 'running', { what: 'it serves' })
  })

  const newest = async (app: string): Promise<{ status: string; job_id: string }> =>
    (await ada.user.get(`/v1/apps/${app}/deployments`)).body[0]
  const idOf = async (volume: string): Promise<string> =>
    (await ada.user.get('/v1/volumes')).body.find((one: { name: string }) => one.name === volume).id
  const openNewest = async (app = 'web') => {
    const { job_id } = await newest(app)
    await ada.open(`/apps/${app}/deployments/${job_id}`, /./)
  }

  it('app settings: the port is saved, and the webhook secret is shown and hidden', async () => {
    await ada.open('/apps/web/settings', 'web')
    await ada.field('Port').fill('9090')
    await ada.button('Save').click()
    await ada.says('Settings saved')
    expect((await ada.user.get('/v1/apps/web')).body.port).toBe(9090)
    await ada.button('Show secret').click()
    const { scm_webhook_secret } = (await ada.user.get('/v1/apps/web/secret')).body
    const shown = async () => (await ada.field('webhook secret').textContent()) === scm_webhook_secret
    await until(shown, { what: 'the secret to be shown' })
    await ada.button('Hide').click()
    await until(async () => !(await ada.page.content()).includes(scm_webhook_secret), {
      what: 'the secret to be hidden',
    })
    await ada.user.call('PATCH', '/v1/apps/web', { port: 8080 })
  })

  it('app settings: the restart policy is saved and reset', async () => {
    const saved = async () => (await ada.user.get('/v1/apps/web')).body.restart
    const save = async (policy: string, most: string) => {
      await ada.open('/apps/web/settings', 'web')
      await ada.field('Restart').selectOption(policy)
      await ada.field('Maximum restarts').fill(most)
      await ada.page
        .locator('form', { has: ada.field('Maximum restarts') })
        .getByRole('button')
        .click()
      await ada.says('Settings saved')
    }
    expect(await saved()).toEqual({ policy: 'always', max_restarts: null })
    await save('on-failure', '3')
    expect(await saved()).toEqual({ policy: 'on-failure', max_restarts: 3 })
    await save('always', '')
    expect(await saved()).toEqual({ policy: 'always', max_restarts: null })
  })

  it('app settings: the release command is unchanged by saving other settings, then changed and removed', async () => {
    const saved = async () => (await ada.user.get('/v1/apps/web')).body.release_command
    const save = async () => {
      await ada.button('Save').click()
      await ada.says('Settings saved')
    }
    await ada.user.call('PATCH', '/v1/apps/web', { port: 8080, release_command: ['python', '-c', 'print("a b")'] })
    await ada.open('/apps/web/settings', 'web')
    expect(await ada.field('Release command').inputValue()).toBe('python -c print("a b")')
    await save()
    expect(await saved()).toEqual(['python', '-c', 'print("a b")'])
    await ada.open('/apps/web/settings', 'web')
    await ada.field('Release command').fill('./migrate up')
    await save()
    expect(await saved()).toEqual(['/bin/sh', '-c', './migrate up'])
    await ada.open('/apps/web/settings', 'web')
    await ada.field('Release command').fill('')
    await save()
    expect(await saved()).toBeNull()
  })

  it('app network: a firewall rule, a TCP service and a domain are added and removed', async () => {
    await ada.open('/apps/web/network', 'web')
    await ada.button('Add service').click()
    await ada.send({ Name: 'mqtt', 'Port in the VM': '1883' }, 'Add service')
    await ada.row(/mqtt 1883/).waitFor()
    await ada.button('Add service').click()
    await ada.send({ Name: 'mqtt', 'Port in the VM': '1884', 'Reached by': 'sni' }, 'Add service')
    await ada.row(/mqtt 1884 ends at the gateway/).waitFor()
    await ada.button('Delete service mqtt').click()
    await ada.confirm('Delete', 'mqtt')
    await ada.says('No TCP services')
    await ada.button('Add rule').click()
    await ada.send({ 'First port': '5432', 'Remote address': '10.0.0.0/8' }, 'Add rule')
    await ada.row(/TCP 5432/).waitFor()
    await ada.button('Delete rule tcp 5432').click()
    await ada.confirm('Delete', 'tcp 5432')
    await ada.says('No rules')
    await ada.button('Add rule').click()
    await ada.send({ 'First port': '5433', 'Remote address': '10.0.0.0/8' }, 'Add rule')
    // Drop the response to the first DELETE: browsers abort requests when the machine gets or loses a network
    // interface, as it does for every VM.
    let dropped = 0
    await ada.page.route('**/security-groups/*', async route => {
      if (route.request().method() !== 'DELETE' || dropped++ > 0) return route.continue()
      await route.fetch()
      return route.abort('connectionreset')
    })
    await ada.button('Delete rule tcp 5433').click()
    await ada.confirm('Delete', 'tcp 5433')
    await ada.says('No rules')
    expect(dropped).toBe(2)
    await ada.page.unroute('**/security-groups/*')
    await ada.button('Add domain').click()
    await ada.send({ Domain: 'www.example.com' }, 'Add domain')
    await ada.field('name of the TXT record').waitFor()
    await ada.button('Check now').click()
    await ada.says(/TXT record/)
    await ada.button('Remove www.example.com').click()
    await ada.confirm('Remove', 'www.example.com')
    await ada.page.getByText('www.example.com', { exact: true }).waitFor({ state: 'detached' })
  })

  it('app volumes: a volume is attached to the running VM and to the app, and detached', async () => {
    await openNewest()
    await ada.button('Attach volume').click()
    await ada.send({ Volume: 'data (64 MiB)', 'Mount point': '/data' }, 'Attach')
    await ada.button('Detach data').click()
    await ada.confirm('Detach', 'data')
    await ada.says('No volumes attached')
    await ada.open('/apps/web/volumes', 'web')
    await ada.button('Attach volume').click()
    await ada.send({ 'Mount point': '/uploads' }, 'Attach')
    await ada.row(/data \/uploads/).waitFor()
    await ada.button('Detach data').click()
    await ada.confirm('Detach', 'data')
    await ada.says('No volumes attached')
  })

  it('a volume moves to another host, or its page shows why it cannot move', async () => {
    await ada.user.post('/v1/volumes', { name: 'later', size_mib: 64 })
    const open = async (name: string) => {
      await ada.open('/volumes', 'Volumes')
      await ada.page.getByRole('link', { name, exact: true }).click()
    }
    await open('later')
    await ada.page.locator('button[aria-disabled]', { hasText: 'Move …' }).hover()
    await ada.says(/has no host yet/)
    await open('data')
    await ada.page.locator('button:not([aria-disabled])', { hasText: 'Move …' }).click()
    await ada.dialog.getByRole('button', { name: 'Move' }).click()
    await ada.says('Completed')
    const { status, host_id, target_host } = (await ada.user.get(`/v1/volumes/${await idOf('data')}/move`)).body
    expect({ status, host_id }).toEqual({ status: 'completed', host_id: target_host })
    await ada.user.delete(`/v1/volumes/${await idOf('later')}`)
  })

  it('deployment page: the memory target is changed, a command runs, and the VM moves to another host', async () => {
    await openNewest()
    await ada.page.getByRole('slider').focus()
    await ada.page.keyboard.press('ArrowLeft')
    await ada.button('Apply').click()
    await ada.says('Changing memory')
    await ada.field('Command').fill('uname -a')
    await ada.button('Run').click()
    await ada.page.getByText(/exit code \d/).waitFor()
    await ada.button('Move …').click()
    await ada.dialog.getByRole('button', { name: 'Move' }).click()
    await ada.says('Completed')
  })

  it('a VM snapshot is restored, forked into another app and deleted', async () => {
    await openNewest()
    await ada.button('Take snapshot').click()
    await ada.send({ Name: 'calm' }, 'Take snapshot')
    await ada.row(/calm Ready/i).waitFor()
    await ada.button('Restore calm').click()
    await ada.confirm('Restore', 'calm')
    await ada.says('Restoring calm')
    await until(async () => (await newest('web')).status === 'running', {
      what: 'the deployment to run again',
    })
    await openNewest()
    await ada.button('Fork calm').click()
    await ada.send({ 'Name of the new app': 'web-copy' }, 'Fork')
    await ada.page.waitForURL('**/apps/web-copy')
    await openNewest()
    await ada.button('Delete calm').click()
    await ada.confirm('Delete', 'calm')
    await ada.says('No snapshots')
  })

  it('the hosts page lists what is still on a draining host, and what each item waits for', async () => {
    type HostNow = { name: string; vms: number }
    const all: HostNow[] = (await ada.user.get('/v1/admin/hosts')).body
    const full = all.find(host => host.vms > 0)?.name
    const act = (verb: string, name: string | undefined) => ada.user.post(`/v1/admin/hosts/${name}/${verb}`)
    for (const { name } of all) if (name !== full) await act('cordon', name)
    await act('drain', full)
    await ada.open('/hosts', 'Hosts')
    const still = ada.page.getByRole('list', { name: 'Still on this host' })
    await still.getByText('The VM leaves when there is capacity').first().waitFor()
    for (const { name } of all) await act('uncordon', name)
    await still.waitFor({ state: 'detached' })
  })

  it('a host is cordoned, uncordoned, drained and removed', async () => {
    await ada.open('/hosts', 'Hosts')
    const act = async (verb: string) => {
      await ada.button('Actions for host-2').click()
      await ada.page.getByRole('menuitem', { name: verb }).click()
    }
    await act('Cordon')
    await ada.says('host-2 accepts no new VMs')
    await act('Uncordon')
    await ada.says('host-2 accepts VMs again')
    await act('Drain …')
    await ada.dialog.getByLabel('Type host-2 to confirm').fill('host-1')
    await ada.dialog.getByRole('button', { name: 'Drain host-2' }).click()
    expect(await ada.dialog.locator(':invalid').count(), 'another name is not enough').toBeGreaterThan(0)
    await ada.confirm('Drain', 'host-2')
    const host = async () =>
      (await ada.user.get('/v1/admin/hosts')).body.find((one: { name: string }) => one.name === 'host-2')
    await until(async () => (await host()).vms === 0, { what: 'host-2 to be empty', timeoutMs: 40_000 })
    await ada.open('/hosts', 'Hosts')
    await act('Remove …')
    await ada.confirm('Remove', 'host-2')
    await until(async () => (await host()) === undefined, { what: 'host-2 to be removed' })
  })

  it('a deployment is stopped and deleted', async () => {
    await openNewest()
    const { job_id } = await newest('web')
    for (const [verb, status] of [
      ['Stop', /^Stopped$/i],
      ['Delete', undefined],
    ] as const) {
      await ada.button('More actions').click()
      await ada.page.getByRole('menuitem', { name: `${verb} …` }).click()
      await ada.confirm(verb, job_id)
      if (status) await ada.says(status)
    }
    await ada.page.waitForURL('**/apps/web/deployments')
    await ada.says('No deployments yet')
  })

  it('GitHub is connected, and its repositories are listed after the redirect', async () => {
    source.installations.set(9001, { login: 'shop' })
    source.codes.set('of-ada', { installations: [9001] })
    source.repositories.push({
      id: 7,
      full_name: 'shop/site',
      private: true,
      default_branch: 'main',
      clone_url: 'https://github.com/shop/site.git',
      html_url: 'https://github.com/shop/site',
    })
    // Replace the page of GitHub on which the user chooses repositories: redirect the browser back, as GitHub does.
    await ada.page.route('https://github.com/**', route => {
      const asked = new URL(route.request().url())
      expect(asked.pathname).toBe('/apps/mote-test/installations/new')
      const back = new URL('/connected?installation_id=9001&setup_action=install&code=of-ada', ada.page.url())
      back.searchParams.set('state', asked.searchParams.get('state') ?? '')
      return route.fulfill({ status: 302, headers: { location: back.href } })
    })
    await ada.open('/apps/new', 'New app')
    await ada.page.getByRole('radio', { name: /Git repository/ }).click()
    await ada.button('Connect repositories').click()
    await ada.page.waitForURL('**/apps/new?source=repository')
    await ada.says('One of the connected repositories')
    expect(ada.complaints.splice(0)).toEqual([expect.stringContaining('https://github.com/apps/mote-test')])
    await ada.page.goto('/connected?installation_id=9001&setup_action=install&state=forged')
    await ada.says('Could not connect the repositories')
  })

  // This test must follow the removal of the other host: with several hosts, a build needs a registry.
  it('a connected repository is built, and the log of a failed build is kept', async () => {
    await ada.page.goto('/apps/new?source=repository')
    await ada.says('One of the connected repositories')
    await ada.field('Name').fill('site')
    await ada.field('Repository').fill('https://github.com/shop/site.git')
    await ada.button('Create and deploy').click()
    await ada.page.waitForURL('**/apps/site/deployments/**')
    await ada.page.getByRole('heading', { name: 'Build', exact: true }).waitFor()
    await ada.page.getByRole('log').getByText('it cannot build').waitFor()
    await ada.page.getByRole('listitem').filter({ hasText: 'failed: Source fetched' }).waitFor()
    await ada.page.reload()
    await ada.page.getByRole('log').getByText('it cannot build').waitFor()
    await ada.says('whole')
    const { body } = await ada.user.get('/v1/apps/site')
    expect(body).toMatchObject({ scm_repo_full_name: 'shop/site', scm_installation_id: 9001 })
  })

  it('an app is deleted', async () => {
    await ada.open('/apps/site/settings', 'site')
    await ada.button('Delete site').click()
    await ada.confirm('Delete', 'site')
    await ada.page.waitForURL('**/apps')
    await until(async () => (await ada.user.get('/v1/apps/site')).status === 404, { what: 'the app to be deleted' })
  })

  it('no page has logged an error', () => expect(ada.complaints).toEqual([]))
})
