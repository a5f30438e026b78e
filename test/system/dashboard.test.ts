// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { TOTP } from 'otpauth'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { noBrowser, openBrowser, overflow, seriousFindings, type Visit, visit } from '../support/browser.ts'
import { answerInWords } from '../support/captcha.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { browserSuite, looks } from '../support/walker.ts'
import { itInAll } from '../support/all-examples.ts'

const password = 'quartz-otter-lantern-42'

/** Drops a file on the list of files, as if dragged from a file manager. */
const dropFile = (page: Page, name: string) =>
  page.evaluate(`(() => {
    const dataTransfer = new DataTransfer()
    dataTransfer.items.add(new File(['dropped'], ${JSON.stringify(name)}))
    const target = document.querySelector('nav[aria-label="Folder"]')
    for (const type of ['dragenter', 'dragover', 'drop'])
      target.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }))
  })()`)

let browser: Browser
let system: TestSystem

beforeAll(async () => {
  if (noBrowser) return
  browser = await openBrowser()
  system = await testSystem({ agents: 2, config: { captchaRequired: true } })
})
afterAll(async () => {
  await system?.[Symbol.asyncDispose]()
})

const base = () => `http://127.0.0.1:${system.control.port}`
for (const { name, ...look } of looks)
  browserSuite(`the dashboard (${name})`, () => {
    vi.setConfig({ testTimeout: 120_000 })
    const email = `walk-${look.colorScheme}@example.com`
    let observed: Visit
    let page: Page
    beforeAll(async () => {
      observed = await visit(browser, base(), look)
      page = observed.page
    })
    afterAll(async () => observed[Symbol.asyncDispose]())

    const button = (label: string | RegExp) => page.getByRole('button', { name: label })
    const field = (label: string) => page.getByLabel(label, { exact: true })
    const dialog = () => page.getByRole('dialog')
    /** Finds a status on the page, ignoring case: statuses are lowercase in the markup and capitalized on screen. */
    const status = (text: string) => page.getByText(new RegExp(`^${text}$`, 'i')).first()
    /** Requirements for every page: no serious accessibility violation, and no horizontal overflow. */
    const expectGood = async () => {
      expect(await seriousFindings(page)).toEqual([])
      expect(await overflow(page), `${page.url()} is wider than the window`).toBe(0)
    }
    const open = async (path: string, heading: string) => {
      await page.goto(path)
      await page.getByRole('heading', { level: 1, name: heading }).waitFor()
    }

    it('sign-up needs a captcha, and shows errors next to the field', async () => {
      await page.goto('/apps')
      await page.waitForURL('**/signin?**')
      await expectGood()
      await page.getByRole('link', { name: 'Sign up' }).click()
      await page.getByAltText('Letters to read').waitFor()
      await expectGood()
      await field('First name').fill('Ada')
      await field('Email').fill(email)
      await field('Password').fill('password')
      await button('Ask me a question in words instead').click()
      const question = page.getByText(/letter/).last()
      const answer = async () => {
        await field('Your answer').fill(answerInWords((await question.textContent()) ?? ''))
        await button('Create account').click()
      }
      const before = await question.textContent()
      await answer()
      await page.getByText(/commonly used password/i).waitFor()
      await until(async () => (await question.textContent()) !== before, { what: 'another captcha' })
      await field('Password').fill(password)
      await answer()
      await page.getByText('No apps yet').waitFor()
      await expectGood()
    })

    it('an app is deployed, and its progress is shown until it serves', async () => {
      await page.getByRole('link', { name: 'Image', exact: true }).click()
      await field('Name').fill('web')
      await field('Image').fill('docker.io/library/nginx:1.27')
      await expectGood()
      await button('Create and deploy').click()
      await page.waitForURL('**/apps/web/deployments/**')
      await page.getByRole('listitem').filter({ hasText: 'done: Online' }).waitFor()
      await status('Serving').waitFor()
      await expectGood()
      const { hostname } = await system.database.db.one<{ hostname: string }>({
        name: 'test.dashboardHost',
        text: `SELECT hostname FROM route ORDER BY hostname DESC LIMIT 1`,
      })
      expect(await answerOf(hostname)).toBe(200)
    })

    it('live metrics and the log of an app are shown', async () => {
      await open('/apps/web', 'web')
      await page.getByRole('img', { name: /^CPU, now/ }).waitFor()
      await expectGood()
      await page.getByRole('navigation', { name: 'web pages' }).getByRole('link', { name: 'Logs' }).click()
      await page.getByRole('log').getByText('listening on port').waitFor()
      await page.getByRole('searchbox', { name: 'Search the log' }).fill('nothing like it')
      await page.getByText('No line contains').waitFor()
      await page.getByRole('searchbox', { name: 'Search the log' }).fill('LISTENING')
      await page.getByRole('log').locator('mark').waitFor()
      await button('Pause').click()
      await status('paused').waitFor()
      await expectGood()
      const download = page.waitForEvent('download')
      await button('Download').click()
      expect((await download).suggestedFilename()).toBe('web.log')
    })

    it('a deployment is paused and resumed, and disabled actions are explained', async () => {
      await open('/apps/web/deployments', 'web')
      await page.getByRole('link', { name: '1.27' }).click()
      await button('Pause').first().click()
      await status('Paused').waitFor()
      await button('Resume').hover()
      await button('Activate').focus()
      await page.getByRole('tooltip').getByText('It is already serving.').waitFor()
      await button('Resume').click()
      await status('Running').waitFor()
    })

    it('a snapshot of the VM is taken', async () => {
      await button('Take snapshot').click()
      await dialog().getByLabel('Name').fill('before-upgrade')
      await dialog().getByRole('button', { name: 'Take snapshot' }).click()
      await page.getByRole('row', { name: /before-upgrade Ready/i }).waitFor()
      await expectGood()
    })

    it('an app is scaled', async () => {
      await open('/apps/web/scale', 'web')
      await field('At most').fill('3')
      await field('Replicas').fill('2')
      await expectGood()
      await button('Save').click()
      await page.getByText('Now 2 replicas').waitFor()
    })

    it('pages are found with the keyboard', async () => {
      await open('/apps', 'Apps')
      await page.keyboard.press('Control+k')
      const search = dialog().getByRole('combobox')
      await search.waitFor()
      await expectGood()
      await search.fill('web logs')
      await dialog().getByRole('option', { name: 'web › Logs' }).waitFor()
      await page.keyboard.press('Enter')
      await page.waitForURL('**/apps/web/logs')
      await button('Find').click()
      await search.fill('no such thing')
      await dialog().getByText('Nothing has this name.').waitFor()
      await expectGood()
      await search.fill('dark theme')
      expect(await dialog().getByRole('option').allTextContents()).toEqual(['Use the dark theme'])
      await page.keyboard.press('Escape')
      await dialog().waitFor({ state: 'hidden' })
    })

    it('an app is rolled back', async () => {
      await open('/apps/web', 'web')
      await button('Deploy').first().click()
      await dialog().getByLabel('Image').fill('docker.io/library/nginx:1.28')
      await expectGood()
      await dialog().getByRole('button', { name: 'Deploy' }).click()
      await page.getByRole('listitem').filter({ hasText: 'done: Online' }).waitFor()
      await open('/apps/web/deployments', 'web')
      await page.getByRole('row', { name: /1\.28.*Serving/i }).waitFor()
      await page
        .getByRole('row', { name: /1\.27/ })
        .getByRole('button', { name: /Roll back/ })
        .click()
      await dialog().getByRole('button', { name: 'Roll back' }).click()
      await page.getByRole('row', { name: /1\.27.*Serving/i }).waitFor()
      await expectGood()
    })

    it('a secret variable is set, and its value is never shown', async () => {
      await open('/apps/web/environment', 'web')
      await button('Add variable').click()
      await dialog().getByLabel('Name').fill('1 WRONG')
      await dialog().getByLabel('Value').fill('hidden-treasure')
      await dialog().getByRole('button', { name: 'Save' }).click()
      await dialog().locator('[aria-invalid="true"], [role="alert"]').first().waitFor()
      await dialog().getByLabel('Name').fill('TREASURE')
      await dialog().getByRole('button', { name: 'Save' }).click()
      await page.getByRole('row', { name: /TREASURE ••/ }).waitFor()
      expect(await page.content()).not.toContain('hidden-treasure')
      await expectGood()
    })

    it('files of the VM are browsed and changed', async () => {
      await open('/apps/web/files', 'web')
      await page.getByRole('link', { name: 'var', exact: true }).click()
      await page.getByRole('link', { name: 'log', exact: true }).click()
      await page.waitForURL('**/apps/web/files?at=%2Fvar%2Flog')
      await page.reload()
      await page.getByRole('cell', { name: 'app.log', exact: true }).waitFor()
      await expectGood()
      await button('New folder').click()
      await dialog().getByLabel('Name').fill('a/b')
      await dialog().getByRole('button', { name: 'Create' }).click()
      await dialog().getByText('A name without slashes is needed.').waitFor()
      await dialog().getByLabel('Name').fill('größe 1')
      await page.keyboard.press('Enter')
      await page.getByRole('link', { name: 'größe 1' }).press('Enter')
      await page.getByText('This folder is empty').waitFor()
      await expectGood()
      const dump = { name: 'dump %41.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(200_000, 'a') }
      const pick = () => page.setInputFiles('input[type=file]', [dump])
      await pick()
      await page.getByRole('row', { name: /dump %41\.bin.*195 KiB/ }).waitFor()
      await pick()
      await dialog().getByText(dump.name).waitFor()
      await expectGood()
      await dialog().getByRole('button', { name: 'Replace' }).click()
      await dialog().waitFor({ state: 'detached' })
      const downloading = page.waitForEvent('download')
      await button(`Download ${dump.name}`).click()
      const download = await downloading
      expect(download.suggestedFilename()).toBe(dump.name)
      expect((await readFile(await download.path())).equals(dump.buffer)).toBe(true)
      await button(`Rename ${dump.name}`).click()
      await dialog().getByLabel('New name').fill('renamed')
      await dialog().getByRole('button', { name: 'Rename' }).click()
      await button('Delete renamed').click()
      await dialog().getByRole('button', { name: 'Delete' }).click()
      await page.getByText('This folder is empty').waitFor()
      await dropFile(page, 'dropped.txt')
      await page.getByRole('cell', { name: 'dropped.txt', exact: true }).waitFor()
      await page.getByRole('navigation', { name: 'Folder' }).getByRole('link', { name: 'log' }).click()
      await button('Delete größe 1').click()
      await dialog().getByText('with everything in it').waitFor()
      await dialog().getByRole('button', { name: 'Delete' }).click()
      await page.getByRole('link', { name: 'größe 1' }).waitFor({ state: 'detached' })
      await page.goto('/apps/web/files?at=/none')
      await page.getByRole('alert').filter({ hasText: 'No such file' }).waitFor()
      await expectGood()
    })

    it('jobs are created and run, their output is shown, and one is cancelled', async () => {
      await open('/apps/web/jobs', 'web')
      await page.getByText('No jobs yet').waitFor()
      await expectGood()
      await button('New job').click()
      await dialog().getByLabel('Name').fill('nightly')
      await dialog().getByLabel('Schedule').fill('99 2 * * *')
      await dialog().getByLabel('Time zone').fill('Europe/Berlin')
      await dialog().getByLabel('Script').fill('echo report\nexit 3')
      await expectGood()
      await dialog().getByRole('button', { name: 'Create job' }).click()
      await dialog().locator('[name="schedule"][aria-invalid="true"]').waitFor()
      await dialog().getByLabel('Schedule').fill('30 2 1 1 *')
      await dialog().getByRole('button', { name: 'Create job' }).click()
      const nightly = page.getByRole('row', { name: /^nightly/ })
      await nightly.getByText('never ran').filter({ visible: true }).waitFor()
      await button('Run nightly now').click()
      await page.getByRole('link', { name: 'Last run of nightly: failed' }).click()
      await dialog().getByRole('log').getByText('exit 3').waitFor()
      await dialog().getByRole('alert').getByText('code 3').waitFor()
      await expectGood()
      await page.reload()
      await dialog().getByRole('log').getByText('exit 3').waitFor()
      await page.keyboard.press('Escape')
      await dialog().waitFor({ state: 'detached' })

      await button('Edit nightly').click()
      expect(await dialog().getByLabel('Time zone').inputValue()).toBe('Europe/Berlin')
      expect(await dialog().getByLabel('Script').inputValue()).toBe('echo report\nexit 3')
      await dialog().getByLabel('Command').selectOption('program')
      await dialog().getByLabel('Program').fill('sleep\n600')
      await dialog().getByRole('button', { name: 'Save' }).click()
      await nightly.getByText('sleep 600').waitFor()
      await button('Pause nightly').click()
      await nightly.getByText('paused').filter({ visible: true }).waitFor()
      await button('Run nightly now').click()
      await page.getByRole('link', { name: 'Last run of nightly: running' }).waitFor()
      await expectGood()
      await button('Cancel nightly').click()
      await dialog().getByRole('button', { name: 'Cancel run' }).click()
      await page.getByRole('link', { name: 'Last run of nightly: cancelled' }).waitFor()
      await button('Resume nightly').click()
      await button('Pause nightly').waitFor()

      await button('Run a command').click()
      await dialog().getByLabel('Shell script').fill('echo once')
      await dialog().getByRole('button', { name: 'Run', exact: true }).click()
      await dialog().getByRole('log').getByText('echo once').waitFor()
      await dialog().getByText('succeeded').waitFor()
      await dialog().getByRole('button', { name: 'Close' }).click()
      await button('Delete nightly').click()
      await dialog().getByLabel('Type nightly to confirm').fill('nightly')
      await dialog().getByRole('button', { name: 'Delete nightly' }).click()
      await page.getByText('No jobs yet').waitFor()
    })

    it('a volume, its snapshot and a clone are created', async () => {
      await open('/volumes', 'Volumes')
      await button('New volume').click()
      await dialog().getByLabel('Name').fill('web-data')
      await dialog().getByLabel('Size').fill('1')
      await dialog().getByRole('button', { name: 'Create volume' }).click()
      await page.getByRole('link', { name: 'web-data' }).click()
      await button('Take snapshot').click()
      await dialog().getByLabel('Name').fill('first')
      await dialog().getByRole('button', { name: 'Take snapshot' }).click()
      await page.getByRole('row', { name: /first Ready/i }).waitFor()
      await expectGood()
      await button('Clone first').click()
      await dialog().getByLabel('Name of the new volume').fill('web-copy')
      await dialog().getByRole('button', { name: 'Clone' }).click()
      await open('/volumes', 'Volumes')
      await page.getByRole('link', { name: 'web-copy' }).waitFor()
      await expectGood()
    })

    it('a database is created, and commands to connect are shown', async () => {
      await open('/databases', 'Databases')
      await button('New database').click()
      await dialog().getByLabel('Name').fill('orders')
      await dialog().getByRole('button', { name: 'Create database' }).click()
      await page.getByLabel('psql command', { exact: true }).waitFor()
      await expectGood()
    })

    it('a new access token is shown only once', async () => {
      await open('/account/tokens', 'Account')
      await button('New token').click()
      await dialog().getByLabel('Name').fill('CI')
      await dialog().getByRole('button', { name: 'Create token' }).click()
      const token = await page.getByLabel('token', { exact: true }).textContent()
      expect(token).toMatch(/^svc_pat_/)
      await button('I have saved it').click()
      await page.getByRole('row', { name: /CI/ }).waitFor()
      expect(await page.content()).not.toContain(token)
    })

    // Not in `npm test`: dashboard-pages.test.ts opens each of these pages.
    itInAll.each([
      ['/apps', 'Apps'],
      ['/apps/web/metrics', 'web'],
      ['/apps/web/network', 'web'],
      ['/apps/web/volumes', 'web'],
      ['/apps/web/settings', 'web'],
      ['/templates', 'Templates'],
      ['/templates/wordpress', 'WordPress'],
      ['/mesh', 'Mesh'],
      ['/billing', 'Billing'],
      ['/notifications', 'Notifications'],
      ['/audit', 'Audit log'],
      ['/account', 'Account'],
      ['/account/sessions', 'Account'],
    ])('%s shows no error', async (path, heading) => {
      await open(path, heading)
      await page.locator('.skeleton').first().waitFor({ state: 'detached' })
      await expectGood()
      expect(await page.getByText('Something went wrong').count()).toBe(0)
    })

    it('a second factor is set up and used to sign in', async () => {
      await open('/account/security', 'Account')
      await button('Switch on').click()
      await page.getByAltText('QR code for your authenticator').waitFor()
      await expectGood()
      const secret = (await page.getByLabel('secret', { exact: true }).textContent()) ?? ''
      await field('Code').fill(new TOTP({ secret }).generate())
      await dialog().getByRole('button', { name: 'Switch on' }).click()
      const codes = page.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem')
      const recovery = (await codes.first().textContent()) ?? ''
      await button('I have saved them').click()
      await button('Account').click()
      await page.getByRole('menuitem', { name: 'Sign out' }).click()
      await page.waitForURL('**/signin**')
      await field('Email').fill(email)
      await field('Password').fill(password)
      await button('Sign in').click()
      await field('Code').fill('000000')
      await button('Sign in').click()
      await page
        .getByRole('alert')
        .getByText(/code is not valid/i)
        .waitFor()
      await field('Code').fill(recovery)
      await button('Sign in').click()
      await page.getByRole('heading', { level: 1, name: 'Account' }).waitFor()
    })

    it('a session survives a reload and a second tab, and signing out ends it in both tabs', async () => {
      await open('/apps', 'Apps')
      await page.reload()
      await page.getByRole('link', { name: 'web', exact: true }).waitFor()
      const second = await page.context().newPage()
      await second.goto('/volumes')
      await second.getByRole('link', { name: 'web-data' }).waitFor()
      await second.getByRole('button', { name: 'Account' }).click()
      await second.getByRole('menuitem', { name: 'Sign out' }).click()
      await page.waitForURL('**/signin**')
      await page.reload()
      await field('Password').waitFor()
      await second.close()
    })

    it('no page has logged an error', () => expect(observed.complaints).toEqual([]))
  })

/** Returns the HTTP status of the app's response through the gateway. */
const answerOf = (host: string) =>
  new Promise<number>((resolve, reject) => {
    request({ host: '127.0.0.1', port: system.gateway.port, path: '/', headers: { host } }, response => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', reject)
      .end()
  })
