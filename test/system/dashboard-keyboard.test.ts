// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
/** Using the dashboard with the keyboard only, persistent filters, and the size of the first load. */
import type { Page } from 'playwright-core'
import { expect, it, vi } from 'vitest'
import { openBrowser, visit } from '../support/browser.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { promisedMs, until } from '../support/wait.ts'
import { browserSuite, prepare, type Walker, walker } from '../support/walker.ts'

/** Script that returns all elements of the page that Tab must reach: those that react to clicks. */
const reachable = `[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
  .filter(one => one.tabIndex >= 0 && !one.disabled && one.type !== 'hidden' && one.checkVisibility({ visibilityProperty: true }))`
/** Script that marks the focused element as reached, and returns whether its focus is visible. */
const markFocused = `(() => {
  const one = document.activeElement
  if (!one || one === document.body) return undefined
  one.dataset.walked = 'yes'
  const { outlineStyle, boxShadow, borderColor } = getComputedStyle(one)
  return { isVisible: outlineStyle !== 'none' || boxShadow !== 'none', what: one.outerHTML.slice(0, 160), borderColor }
})()`
const unwalked = `${reachable}.filter(one => one.dataset.walked !== 'yes').map(one => one.outerHTML.slice(0, 160))`

const pages = {
  '/apps': 'Apps',
  '/apps/new': 'New app',
  '/apps/shop': 'shop',
  '/apps/shop/deployments': 'shop',
  '/apps/shop/environment': 'shop',
  '/apps/shop/settings': 'shop',
  '/templates': 'Templates',
  '/volumes': 'Volumes',
  '/databases': 'Databases',
  '/hosts': 'Hosts',
  '/audit': 'Audit log',
  '/account/tokens': 'Account',
} as const

/** Presses Tab until the element with this accessible name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  const nameOfFocused =
    '(document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "").trim()'
  for (let presses = 0; presses < 80; presses++) {
    await page.keyboard.press('Tab')
    if ((await page.evaluate<string>(nameOfFocused)) === name) return
  }
  throw new Error(`Tab does not reach "${name}"`)
}

browserSuite('the dashboard by keyboard', () => {
  vi.setConfig({ testTimeout: 90_000 })
  let system: TestSystem
  let ada: Walker
  prepare(async (browser, undo) => {
    system = undo.use(await testSystem({ agents: 0 }))
    await system.addAgent({ fake: { imageMs: 5, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
    ada = undo.use(await walker(system, browser, { viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce' }))
    const { user } = ada
    await user.post('/v1/apps', { name: 'shop', git_url: '' })
    await user.call('PUT', '/v1/apps/shop/env/LEVEL', { value: 'info', secret: false })
    for (const name of ['pictures', 'ledger']) await user.post('/v1/volumes', { name, size_mib: 1024 })
    const { job_id } = (await user.post('/v1/apps/shop/deploy', { image: 'docker.io/library/nginx:1.28' })).body
    const serves = async () => (await user.get(`/v1/apps/shop/deployments/${job_id}`)).body.status === 'running'
    await until(serves, { what: 'shop serves', timeoutMs: 60_000 })
    const volumes: { id: string; name: string }[] = (await user.get('/v1/volumes')).body
    const mount = { volume_id: volumes.find(({ name }) => name === 'pictures')?.id, mount_point: '/pictures' }
    const { status, body } = await user.post(`/v1/apps/shop/deployments/${job_id}/volumes/attach`, mount)
    expect(status, JSON.stringify(body)).toBe(200)
  })

  it.each(Object.entries(pages))('Tab reaches every control on %s with a visible focus', async (path, heading) => {
    const { page } = ada
    await ada.open(path, heading)
    await page.locator('.skeleton').first().waitFor({ state: 'detached' })
    const count = await page.evaluate<number>(`${reachable}.length`)
    expect(count).toBeGreaterThan(10)
    const invisible: string[] = []
    // Press Tab more often than there are elements, because lists may grow in the meantime.
    for (let presses = 0; presses < count + 20; presses++) {
      await page.keyboard.press('Tab')
      const focused = await page.evaluate<{ isVisible: boolean; what: string } | undefined>(markFocused)
      if (focused?.isVisible === false) invisible.push(focused.what)
    }
    expect(await page.evaluate<string[]>(unwalked)).toEqual([])
    expect(invisible).toEqual([])
  })

  it('Enter opens pages, dialogs and menus, and Escape closes dialogs and menus', async () => {
    const { page } = ada
    await ada.open('/apps', 'Apps')
    await tabTo(page, 'New app')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'New app' }).waitFor()

    await ada.open('/volumes', 'Volumes')
    await ada.says('pictures')
    await tabTo(page, 'New volume')
    await page.keyboard.press('Enter')
    await ada.dialog.waitFor()
    await page.keyboard.type('typed')
    await page.keyboard.press('Enter')
    await ada.dialog.waitFor({ state: 'detached' })
    await ada.row('typed').waitFor()
    await page.keyboard.press('Enter')
    await ada.dialog.waitFor()
    await page.keyboard.press('Escape')
    await ada.dialog.waitFor({ state: 'detached' })
    const focused = 'document.activeElement.textContent.trim()'
    expect(await page.evaluate<string>(focused), 'the focus is at the button again').toBe('New volume')

    await tabTo(page, 'Account')
    await page.keyboard.press('Enter')
    await page.getByRole('menuitem', { name: 'Dark' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('menuitem', { name: 'Dark' }).waitFor({ state: 'detached' })

    await page.keyboard.press('Control+k')
    await ada.dialog.waitFor()
    await page.keyboard.type('databases')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Databases' }).waitFor()
  })

  it('a filter is part of the URL, and is remembered for the user who chose it', async () => {
    const { page } = ada
    await ada.open('/volumes', 'Volumes')
    await ada.row('ledger').waitFor()
    await ada.button(/^Attached/).click()
    await ada.row('ledger').waitFor({ state: 'detached' })
    await page.waitForURL(/volumes_status=attached/)
    await ada.open('/volumes', 'Volumes')
    await ada.row('pictures').waitFor()
    await page.waitForURL(/volumes_status=attached/)
    expect(await ada.row('ledger').count()).toBe(0)
    // A filter in the URL overrides the remembered filter.
    await ada.open('/volumes?volumes_status=detached', 'Volumes')
    await ada.row('ledger').waitFor()
    expect(await ada.row('pictures').count()).toBe(0)
    await ada.button(/^All/).click()
    await ada.row('pictures').waitFor()
    await page.waitForURL(url => !url.search.includes('volumes_status'))
    await ada.open('/audit', 'Audit log')
    await page.getByLabel('Resource type').selectOption('volume')
    await ada.open('/audit', 'Audit log')
    expect(await page.getByLabel('Resource type').inputValue()).toBe('volume')
    // Another user in the same browser starts without the filter.
    const other = await system.user('grace@example.com')
    await page.getByRole('button', { name: 'Account', exact: true }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByLabel('Email').fill(other.email)
    await page.getByLabel('Password').fill(other.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('button', { name: 'Account', exact: true }).waitFor()
    await ada.open('/audit', 'Audit log')
    expect(await page.getByLabel('Resource type').inputValue()).toBe('')
  })

  it('the first visit loads at most 200 KB, and is usable within a second', async () => {
    await using fresh = await visit(await openBrowser(), `http://127.0.0.1:${system.control.port}`, {})
    await fresh.page.goto('/signin')
    await fresh.page.getByLabel('Email').fill('ada')
    const { ms, bytes } = await fresh.page.evaluate<{ ms: number; bytes: number }>(`({
      ms: performance.now(),
      bytes: [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .reduce((sum, { transferSize }) => sum + transferSize, 0),
    })`)
    expect(bytes).toBeGreaterThan(20_000)
    expect(bytes).toBeLessThan(200_000)
    expect(ms).toBeLessThan(promisedMs(1000))
  })
})
