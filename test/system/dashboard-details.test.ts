// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { dashboardDirectory } from '../../src/control/dashboard/pages.ts'
import { openBrowser, requireBuild, visit } from '../support/browser.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { browserSuite } from '../support/walker.ts'

interface Chunk {
  readonly file: string
  readonly imports?: readonly string[]
}

describe('the first load of the dashboard', () => {
  /** Returns every script that a browser loads for the page with this source file. */
  async function scriptsFor(source: string): Promise<readonly string[]> {
    requireBuild()
    const text = await readFile(join(dashboardDirectory, '.vite', 'manifest.json'), 'utf8')
    const manifest = JSON.parse(text) as Readonly<Record<string, Chunk>>
    const files = new Set<string>()
    const add = (name: string) => {
      const chunk = manifest[name]
      if (!chunk) throw new Error(`the build has no ${name}`)
      if (files.has(chunk.file)) return
      files.add(chunk.file)
      for (const imported of chunk.imports ?? []) add(imported)
    }
    add('index.html')
    add(source)
    return [...files]
  }
  const gzipBytes = async (files: readonly string[]) => {
    const sizes = await Promise.all(
      files.map(async file => {
        const path = join(dashboardDirectory, file)
        return (await readFile(`${path}.gz`).catch(() => readFile(path))).byteLength
      }),
    )
    return sizes.reduce((sum, size) => sum + size, 0)
  }

  it.each(['apps', 'sign-in', 'app/overview', 'deployment/page'])(
    'needs at most 200 KB of scripts for the page %s',
    async page => {
      const bytes = await gzipBytes(await scriptsFor(`src/pages/${page}.tsx`))
      expect(bytes).toBeGreaterThan(50_000)
      expect(bytes).toBeLessThan(200_000)
    },
  )
})

browserSuite('the dashboard in detail', () => {
  vi.setConfig({ testTimeout: 120_000 })
  let browser: Browser
  let system: TestSystem
  const base = () => `http://127.0.0.1:${system.control.port}`
  beforeAll(async () => {
    browser = await openBrowser()
    system = await testSystem({ config: { accessTokenTtlSeconds: 5 } })
  })
  afterAll(async () => {
    await system?.[Symbol.asyncDispose]()
  })

  async function signIn(page: Page) {
    const { email, password } = await system.user()
    await page.goto('/signin')
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('No apps yet').waitFor()
    return email
  }

  it('a log of 100,000 lines is followed and searched, and only visible lines are rendered', async () => {
    await using observed = await visit(browser, base(), { viewport: { width: 1280, height: 860 } })
    const { page } = observed
    await signIn(page)
    await page.goto('/apps/new')
    await page.getByLabel('Name').fill('talkative')
    await page.getByLabel('Image').fill('nginx:1.27')
    await page.getByRole('button', { name: 'Create and deploy' }).click()
    await page.getByRole('listitem').filter({ hasText: 'done: Online' }).waitFor()
    const count = 100_000
    let asked = 0
    await page.route('**/logs/stream**', route => {
      asked += 1
      const events = Array.from({ length: asked === 1 ? count : 0 }, (_, index) => {
        const of = { deployment_id: 'job-1', vm_id: 'vm-12345678' }
        const data = JSON.stringify({
          at: new Date(index).toISOString(),
          stream: 'stdout',
          line: `line ${index}`,
          ...of,
        })
        return `id: ${index}\nevent: log\ndata: ${data}\n\n`
      })
      return route.fulfill({ contentType: 'text/event-stream', body: `retry: 60000\n\n${events.join('')}` })
    })
    await page.goto('/apps/talkative/logs')
    await page.getByText('100,000 lines').waitFor()
    await page.getByRole('log').getByText('line 99999', { exact: true }).waitFor()
    expect(await page.getByRole('log').locator('div').count()).toBeLessThan(200)

    await page.getByRole('searchbox', { name: 'Search the log' }).fill('line 54321')
    await page.getByText('1 of 100,000').waitFor()
    await page.getByRole('searchbox', { name: 'Search the log' }).fill('')
    await page.getByText('100,000 lines').waitFor()
    await page.getByRole('log').getByText('line 99999', { exact: true }).waitFor()
    await page.getByRole('log').focus()
    await page.keyboard.press('Home')
    await page.getByRole('log').getByText('line 0', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Newest' }).click()
    await page.getByRole('log').getByText('line 99999', { exact: true }).waitFor()
    expect(observed.complaints).toEqual([])
  })

  it('the shell in a terminal survives the renewal of the session token', async () => {
    await using observed = await visit(browser, base(), { viewport: { width: 1280, height: 860 } })
    const { page } = observed
    await signIn(page)
    await page.goto('/apps/new')
    await page.getByLabel('Name').fill('shell')
    await page.getByLabel('Image').fill('nginx:1.27')
    await page.getByRole('button', { name: 'Create and deploy' }).click()
    await page.getByRole('listitem').filter({ hasText: 'done: Online' }).waitFor()
    let connections = 0
    page.on('websocket', () => {
      connections += 1
    })
    await page.goto('/apps/shell/terminal')
    await page.getByRole('button', { name: 'Open a shell' }).click()
    const terminal = page.getByTestId('terminal')
    await page.getByText('Connected').waitFor()
    // The simulated shell echoes its input.
    await page.keyboard.type('before')
    await terminal.getByText('before').waitFor()
    // Each session token is valid for five seconds, and the terminal reconnects with the next one.
    await until(() => connections >= 3, { what: 'two new connections', timeoutMs: 60_000 })
    await page.keyboard.type(', after')
    await terminal.getByText('before, after').waitFor()
    expect(observed.complaints).toEqual([])
  })

  it('a session survives several tabs, reloads, and a lost response to a token refresh', async () => {
    await using observed = await visit(browser, base(), {})
    const email = await signIn(observed.page)
    const tabs = [observed.page, await observed.page.context().newPage(), await observed.page.context().newPage()]
    for (const tab of tabs.slice(1)) await tab.goto('/apps')
    const audited = async (action: string) => {
      const { count } = await system.database.db.one<{ count: number }>(
        {
          name: `test.audited.${action}`,
          text: `SELECT count(*)::int AS count FROM audit_log l JOIN account a ON a.id = l.account_id WHERE a.email = $1 AND l.action = $2`,
        },
        [email, action],
      )
      return count
    }
    const used = async () => {
      for (const tab of tabs)
        await tab
          .getByRole('link', { name: /^(?:Volumes|Apps)$/ })
          .last()
          .click()
      await tabs[0]?.reload()
      return (await audited('auth.refresh')) >= 3
    }
    await until(used, { what: 'three refreshes', timeoutMs: 90_000, everyMs: 300 })
    // Reload while the response to a refresh is on its way: the server has invalidated the refresh token, and no page
    // has the next one.
    const [first] = tabs
    for (const tab of tabs.slice(1)) await tab.close()
    const lost = Promise.withResolvers<void>()
    await first?.route('**/v1/auth/refresh', async route => {
      await route.fetch()
      await first.unroute('**/v1/auth/refresh')
      lost.resolve()
    })
    const usedUntilLost = async () => {
      await first
        ?.getByRole('link', { name: /^(?:Volumes|Apps)$/ })
        .last()
        .click()
      return Promise.race([lost.promise.then(() => true), new Promise<false>(resolve => setImmediate(resolve, false))])
    }
    await until(usedUntilLost, { what: 'a refresh', timeoutMs: 90_000, everyMs: 300 })
    await first?.reload()
    await first?.getByRole('heading', { name: /^(?:Volumes|Apps)$/ }).waitFor()
    expect(await audited('auth.refresh_reused')).toBe(0)
    expect(new URL(first?.url() ?? '').pathname).not.toBe('/signin')
  })
})
