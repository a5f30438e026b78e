/** A real browser for dashboard tests: the distribution's Chromium, driven by playwright-core. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import axe, { type AxeResults } from 'axe-core'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { dashboardDirectory } from '../../src/control/dashboard/pages.ts'
import { once } from '../../src/lib/once.ts'
import { findProgram } from '../../src/lib/programs.ts'

const program = await findProgram('chromium')

/** Why browser tests cannot run on this machine; undefined if they can. */
export const noBrowser: string | undefined = program === undefined ? 'no chromium: apt-get install chromium' : undefined

/** Checks that the dashboard is built. @throws Error if it is not */
export function requireBuild(): void {
  if (!existsSync(join(dashboardDirectory, 'index.html')))
    throw new Error('the dashboard is not built: npm run dashboard')
}

/** Starts the browser once per test process, and returns it to every suite. It is killed when the process exits. */
export const openBrowser = once(async (): Promise<Browser> => {
  requireBuild()
  if (program === undefined) throw new Error(noBrowser)
  const args = ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--no-first-run']
  return chromium.launch({ executablePath: program, args })
})

export interface Visit extends AsyncDisposable {
  readonly page: Page
  /** Problems: script errors, error messages on the console such as CSP violations, and requests to other origins. */
  readonly complaints: string[]
  /** Requests without a response, with the browser's reason. */
  readonly unanswered: readonly string[]
}

/** Opens a page in its own browser context, as one user. Timeouts are long, because other tests share the two cores. */
export async function visit(browser: Browser, baseUrl: string, options: BrowserContextOptions): Promise<Visit> {
  // Disable animations: painting them takes a tenth of the CPU time of these tests.
  const context = await browser.newContext({ baseURL: baseUrl, reducedMotion: 'reduce', ...options })
  context.setDefaultTimeout(25_000)
  const complaints: string[] = []
  const unanswered: string[] = []
  context.on('requestfailed', request =>
    unanswered.push(`${request.method()} ${request.url()}: ${request.failure()?.errorText}`),
  )
  context.on('page', page => {
    page.on('pageerror', error => complaints.push(`${page.url()}: ${error.message}`))
    page.on('console', message => {
      // Ignore messages about HTTP error statuses, which some tests expect.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        complaints.push(`${page.url()}: ${message.text()}`)
    })
    page.on('request', request => {
      if (!request.url().startsWith(baseUrl) && !/^(?:data|blob):/.test(request.url()))
        complaints.push(`a request to another origin: ${request.url()}`)
    })
  })
  const page = await context.newPage()
  return { page, complaints, unanswered, [Symbol.asyncDispose]: () => context.close() }
}

/** Returns every accessibility violation that axe-core finds on the page: rule and location. */
export const findings = (page: Page): Promise<readonly string[]> => findingsOf(page, () => true)

/** Returns the accessibility violations on the page that axe-core rates as serious or critical. */
export const seriousFindings = (page: Page): Promise<readonly string[]> =>
  findingsOf(page, impact => impact === 'serious' || impact === 'critical')

async function findingsOf(page: Page, counts: (impact: unknown) => boolean): Promise<readonly string[]> {
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(axe.source)
  // Let axe-core report only violations: reporting passed checks, too, would take most of the time.
  const { violations } = await page.evaluate<AxeResults>("axe.run(document, { resultTypes: ['violations'] })")
  return violations
    .filter(({ impact }) => counts(impact))
    .flatMap(({ id, nodes }) => nodes.map(node => `${page.url()}: ${id} at ${node.target.join(' ')}`))
}

/** Records the layout shifts of pages that the context opens later, for `shiftsOf`. */
export const watchShifts = (context: BrowserContext): Promise<unknown> =>
  context.addInitScript(`
    window.moteShifts = []
    new PerformanceObserver(list => {
      for (const entry of list.getEntries())
        if (!entry.hadRecentInput)
          window.moteShifts.push({
            value: entry.value,
            what: entry.sources.map(({ node }) => (node?.outerHTML ?? node?.textContent ?? 'text').slice(0, 120)),
          })
    }).observe({ type: 'layout-shift', buffered: true })`)

export interface Shifts {
  /** Sum of all layout shifts. As for Cumulative Layout Shift, up to 0.1 is good (https://web.dev/articles/cls). */
  readonly total: number
  readonly what: readonly string[]
}

/** Returns the layout shifts since the page was opened, except those caused by input. */
export async function shiftsOf(page: Page): Promise<Shifts> {
  const all = await page.evaluate<{ value: number; what: string[] }[]>('window.moteShifts')
  return { total: all.reduce((sum, { value }) => sum + value, 0), what: all.flatMap(({ what }) => what) }
}

/** Returns by how many pixels the page is wider than the window. */
export const overflow = (page: Page): Promise<number> =>
  page.evaluate<number>('Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)')

/** Returns the text of cards that extend into the page's right margin, although the page may still fit the window. */
export const cardsTooWide = (page: Page): Promise<readonly string[]> =>
  page.evaluate<readonly string[]>(`[...document.querySelectorAll('main section')]
    .filter(card => card.getBoundingClientRect().right > document.documentElement.clientWidth - 15)
    .map(card => card.textContent.slice(0, 40))`)
