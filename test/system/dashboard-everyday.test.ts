// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
/**
 * Everyday work in the dashboard: see what serves and why a deployment failed, compare, restart, roll back, set
 * variables.
 */
import { expect, it, vi } from 'vitest'
import { overflow, seriousFindings } from '../support/browser.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { browserSuite, looks, prepare, type Walker, walker } from '../support/walker.ts'

for (const { name, ...look } of looks)
  browserSuite(`everyday pages of the dashboard (${name})`, () => {
    vi.setConfig({ testTimeout: 120_000 })
    let system: TestSystem
    let ada: Walker
    prepare(async (browser, undo) => {
      system = undo.use(await testSystem({ agents: 2 }))
      ada = undo.use(await walker(system, browser, look))
      await ada.user.post('/v1/apps', { name: 'web', git_url: '' })
      await deploy('docker.io/library/nginx:1.26')
      await ada.user.call('PUT', '/v1/apps/web/env/LEVEL', { value: 'a secret value' })
      await deploy('docker.io/library/nginx:1.27')
    })

    const deployments = async (): Promise<{ status: string; job_id: string; image: string }[]> =>
      (await ada.user.get('/v1/apps/web/deployments')).body
    const newestServes = async () => (await deployments())[0]?.status === 'running'
    const deploy = async (image: string) => {
      await ada.user.post('/v1/apps/web/deploy', { image })
      await until(newestServes, { what: `${image} serves` })
    }
    const expectGood = async () => {
      // Wait for color transitions, because the contrast is measured.
      const isStill = 'document.getAnimations().every(one => !(one instanceof CSSTransition))'
      await until(() => ada.page.evaluate<boolean>(isStill), { what: 'the end of transitions' })
      expect(await seriousFindings(ada.page)).toEqual([])
      expect(await overflow(ada.page), `${ada.page.url()} is wider than the window`).toBe(0)
    }

    it('the app overview shows what serves, since when, its health and who deployed it', async () => {
      await ada.open('/apps/web', 'web')
      await ada.says('nginx:1.27')
      await ada.says('Passing (GET /)')
      await ada.says(ada.user.email)
      await ada.says('Serving since')
      await expectGood()
    })

    it('the Restart button starts new VMs of the same version', async () => {
      const before = await deployments()
      await ada.open('/apps/web', 'web')
      await ada.button('Restart').click()
      await ada.says(/New VMs of the same version start/)
      await until(async () => (await deployments()).length === before.length + 1 && (await newestServes()), {
        what: 'the new VMs serve',
      })
      expect((await deployments())[0]?.image).toBe('docker.io/library/nginx:1.27')
    })

    it('a deployment is compared with the previous one, or with a chosen one', async () => {
      const [restarted, second, first] = await deployments()
      await ada.open(`/apps/web/deployments/${restarted?.job_id}`, 'nginx:1.27')
      await ada.says(/Nothing differs/)
      await ada.page.getByLabel('Compare with').selectOption(first?.job_id ?? '')
      await ada.says('docker.io/library/nginx:1.26')
      await ada.page.getByLabel('Compare with').selectOption(second?.job_id ?? '')
      await ada.says(/Nothing differs/)
      await ada.open(`/apps/web/deployments/${second?.job_id}`, 'nginx:1.27')
      await ada.says('Variable added')
      expect(await ada.page.content()).not.toContain('a secret value')
      await expectGood()
    })

    it('deployments are filtered by status, and the filter survives a reload', async () => {
      await ada.open('/apps/web/deployments', 'web')
      const rows = ada.page.getByRole('table').getByRole('row')
      await until(async () => (await rows.count()) === 4, { what: 'all rows' })
      await ada.button(/^Running/).click()
      await until(async () => (await rows.count()) === 2, { what: 'only the one that runs' })
      await expectGood()
      await ada.page.reload()
      await until(async () => (await rows.count()) === 2, { what: 'the choice to be kept' })
      await ada.button(/^All/).click()
    })

    it('an app is rolled back from its overview', async () => {
      await ada.user.post('/v1/apps/web/deploy', { image: 'docker.io/library/nginx:1.28' })
      await until(newestServes, { what: 'it serves' })
      await ada.open('/apps/web', 'web')
      await ada.page.getByText('nginx:1.28').first().waitFor()
      await ada.button(/^Roll back to/).click()
      await ada.dialog.getByRole('button', { name: 'Roll back', exact: true }).click()
      await until(async () => (await deployments())[1]?.status === 'running', {
        what: 'the rollback',
      })
    })

    it('metrics are shown for the chosen time range', async () => {
      const asked: string[] = []
      ada.page.on('request', request => asked.push(request.url()))
      await ada.open('/apps/web/metrics', 'web')
      for (const range of ['6h', '24h', '7d', '30d', '1h']) {
        await ada.page.getByRole('button', { name: range, exact: true }).click()
        await ada.page.getByRole('button', { name: range, exact: true, pressed: true }).waitFor()
        await until(async () => asked.some(url => url.includes(`/history?range=${range}`)), {
          what: `the last ${range}`,
        })
      }
      await ada.page.getByRole('button', { name: 'Live', exact: true }).click()
      await ada.says(/The last five minutes/)
      await expectGood()
    })

    it('variables are set from a pasted .env file, and an error names the line', async () => {
      await ada.open('/apps/web/environment', 'web')
      await ada.button('Paste .env').click()
      await ada.dialog.getByLabel('Variables').fill('# mine\nA=1\nwrong line')
      await ada.dialog.getByRole('button', { name: 'Set variables' }).click()
      await ada.says(/Line 3: A line must be NAME=value/)
      await expectGood()
      await ada.send({ Variables: 'export A=1 # one\nB="two\nlines"\n' }, 'Set variables')
      await ada.says('Set 2 variables')
      await ada.page.getByRole('table', { name: 'Environment variables' }).getByRole('row', { name: /^B / }).waitFor()
      await expectGood()
    })

    it('an app gets a file, an environment group and build arguments, and its variables are rolled back', async () => {
      await ada.user.post('/v1/env-groups', { name: 'shared' })
      await ada.open('/apps/web/environment', 'web')
      await ada.button('Add file').click()
      await ada.send({ Path: '/etc/web.conf', Content: 'level = 1', Mode: '0600' }, 'Save')
      await ada.row('/etc/web.conf').waitFor()
      await ada.page.getByLabel('Groups').fill('shared')
      await ada.button('Save').click()
      await ada.says('Groups attached')
      await expectGood()
      expect((await ada.user.get('/v1/apps/web/files')).body).toMatchObject([{ path: '/etc/web.conf', mode: '0600' }])
      expect((await ada.user.get('/v1/apps/web/env-groups')).body).toMatchObject([{ name: 'shared' }])
      await ada.user.call('PUT', '/v1/apps/web/env/LEVEL', { value: 'another' })
      await ada.open('/apps/web/environment', 'web')
      const history = ada.page.getByRole('table', { name: 'History of variables' })
      await history.getByRole('button', { name: 'Roll back to version 1', exact: true }).click()
      await ada.send({}, 'Roll back')
      await ada.says('Rolled back to version 1')
      await ada.open('/apps/web/settings', 'web')
      await ada.page.getByLabel('Arguments').fill('VERSION=1.4')
      const build = ada.page.locator('form').filter({ hasText: 'Secrets for builds' })
      await build.getByLabel('Dockerfile').fill('docker/web.Dockerfile')
      await build.getByRole('button', { name: 'Save' }).click()
      await ada.says('Settings saved')
      await expectGood()
      expect((await ada.user.get('/v1/apps/web')).body.build).toMatchObject({
        dockerfile: 'docker/web.Dockerfile',
        args: { VERSION: '1.4' },
      })
      await ada.user.call('PUT', '/v1/apps/web/env-groups', { groups: [] })
    })

    it('an environment group with a variable is created in the project settings', async () => {
      const { tenant_id: slug } = (await ada.user.get('/v1/projects')).body[0]
      await ada.open(`/projects/${slug}`, 'Project settings')
      await ada.button('Add group').click()
      await ada.send({ Name: 'mail' }, 'Add')
      await ada.page.getByRole('heading', { name: 'Variables of mail' }).waitFor()
      await ada.page
        .locator('section')
        .filter({ hasText: 'Variables of mail' })
        .getByRole('button', { name: 'Set variable' })
        .first()
        .click()
      await ada.send({ Name: 'API_URL', Value: 'https://api.example.com' }, 'Save')
      await ada.page.getByRole('table', { name: 'Variables of mail' }).getByRole('row', { name: 'API_URL' }).waitFor()
      await expectGood()
      expect((await ada.user.get('/v1/env-groups/mail/env')).body).toMatchObject([{ name: 'API_URL', secret: true }])
    })

    it('an app is created with variables, and the list shows why its first deployment failed', async () => {
      await ada.open('/apps/new', 'New app')
      await ada.field('Name').fill('broken')
      await ada.field('Image').fill('docker.io/example/broken:1')
      await ada.field('Environment').fill('MOTE_FAKE=boot-fails')
      await expectGood()
      await ada.button('Create and deploy').click()
      await ada.page.waitForURL('**/apps/broken/deployments/**')
      const failed = async () => (await ada.user.get('/v1/apps/broken')).body.failure !== null
      await until(failed, { what: 'it fails', timeoutMs: 30_000 })
      expect((await ada.user.get('/v1/apps/broken/env')).body[0].name).toBe('MOTE_FAKE')
      await ada.open('/apps', 'Apps')
      const row = ada.page.getByRole('listitem').filter({ hasText: 'broken' })
      await row.getByText(/^failed$/i).waitFor()
      await row.locator('p[title]').waitFor()
      await ada.button(/^Failed/).click()
      await until(
        async () => (await ada.page.getByRole('list', { name: 'Apps' }).getByRole('listitem').count()) === 1,
        {
          what: 'only the failed app',
        },
      )
      await expectGood()
      await ada.button(/^All/).click()
      await ada.open('/apps/broken', 'broken')
      await ada.says(/The last deployment failed/)
      await expectGood()
    })

    it('the project page shows who did what', async () => {
      await ada.open(`/projects/${ada.user.project}`, 'Project settings')
      await ada.page.getByRole('list', { name: 'Activity' }).getByText('created the app broken').waitFor()
      await ada.says('set the variable MOTE_FAKE of broken')
      await expectGood()
    })

    it.each([
      ['/apps/nothing', 'nothing', 'All apps'],
      ['/apps/nothing/metrics', 'nothing', 'All apps'],
      ['/apps/web/deployments/job-nothing', 'Deployment', 'All deployments'],
      ['/apps/nothing/deployments/job-nothing', 'nothing', 'All apps'],
      ['/databases/01970000-0000-7000-8000-000000000000', 'Database', 'All databases'],
      ['/projects/nothing', 'Project settings', 'Go to your apps'],
      ['/projects/nothing/members', 'Members', 'Go to your apps'],
    ])('%s shows "not found" with a link back', async (path, heading, way) => {
      await ada.open(path, heading)
      await ada.page.getByRole('link', { name: way }).waitFor()
      expect(await ada.page.getByRole('link', { name: 'Metrics' }).count()).toBe(0)
      await expectGood()
    })
  })
