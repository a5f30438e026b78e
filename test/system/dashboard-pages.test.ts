// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
/**
 * Opens every page of the dashboard with data, in light and dark theme, at desktop and phone width. Each must be
 * accessible, fit into the window, and log no errors. `npm run test:all` stores screenshots in `.cache/screenshots`; with MOTE_SCREENSHOTS
 * (`npm run docs:screenshots`) also updates those in the documentation.
 */
import { copyFile, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { sampleImage } from '../../src/lib/sample.ts'
import { runsAll } from '../support/all-examples.ts'
import {
  cardsTooWide,
  findings,
  noBrowser,
  openBrowser,
  overflow,
  shiftsOf,
  type Visit,
  visit,
  watchShifts,
} from '../support/browser.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'
import { browserSuite, type Walker, walker } from '../support/walker.ts'

const root = join(import.meta.dirname, '..', '..')
const folder = join(root, '.cache', 'screenshots')
const isForDocuments = Boolean(process.env['MOTE_SCREENSHOTS'])
const desktop = { width: 1440, height: 900 }
const phone = { width: 390, height: 844 }
/**
 * Theme and window size of each screenshot. One size per theme is checked with axe-core, because colors do not differ.
 * `npm test` opens each page only in one of these two, in turns.
 */
const all = [
  { name: 'desktop-light', colorScheme: 'light', viewport: desktop, isAudited: true },
  { name: 'phone-light', colorScheme: 'light', viewport: phone, isAudited: false },
  { name: 'phone-dark', colorScheme: 'dark', viewport: phone, isAudited: true },
  { name: 'desktop-dark', colorScheme: 'dark', viewport: desktop, isAudited: false },
] as const
const audited = all.filter(look => look.isAudited)
const looksOf = (page: string) =>
  runsAll || isForDocuments ? all : audited.slice(Object.keys(places).indexOf(page) % 2).slice(0, 1)

/** Screenshots that the documentation shows, by file name in `docs/images`. */
const ofDocuments = {
  'dashboard.png': 'Overview-desktop-light',
  'first-run.png': 'FirstApp-desktop-light',
  'deployment.png': 'DeploymentPage-desktop-light',
} as const

interface Place {
  readonly path: string
  /** First-level heading of the page. */
  readonly heading: string | RegExp
  /** Visitor: not signed in (`stranger`), or a user without apps (`newcomer`); default: a user with apps. */
  readonly as?: 'stranger' | 'newcomer'
  /** Text that is visible once the page has loaded its data. */
  readonly shows?: string | RegExp
}

/** Maximum Cumulative Layout Shift of a good page (https://web.dev/articles/cls). */
const goodShift = 0.1

const ids = { job: '', volume: '', database: '', project: '' }

/** Pages to open, by the name of their component in router.tsx. */
const places: Readonly<Record<string, Place>> = {
  SignIn: { path: '/signin', heading: 'Sign in to Mote', as: 'stranger' },
  SignUp: { path: '/signup', heading: 'Create your account', as: 'stranger' },
  ForgotPassword: { path: '/forgot', heading: 'Reset your password', as: 'stranger' },
  VerifyEmail: { path: '/link/verify#x', heading: 'Confirm your email address', as: 'stranger' },
  ResetPassword: { path: '/link/reset#x', heading: 'Choose a new password', as: 'stranger' },
  FirstApp: { path: '/apps', heading: 'Apps', as: 'newcomer', shows: 'No apps yet' },
  AcceptInvitation: { path: '/link/invitation#x', heading: 'Invitation' },
  Connected: { path: '/connected', heading: 'Connecting repositories', shows: 'Could not connect' },
  Apps: { path: '/apps', heading: 'Apps', shows: 'hello' },
  NewApp: { path: '/apps/new', heading: 'New app' },
  Deployments: { path: '/apps/shop/deployments', heading: 'shop', shows: 'nginx:1.28' },
  Logs: { path: '/apps/shop/logs', heading: 'shop', shows: 'listening on port' },
  Files: { path: '/apps/shop/files', heading: 'shop', shows: 'var' },
  Terminal: { path: '/apps/shop/terminal', heading: 'shop' },
  Jobs: { path: '/apps/shop/jobs', heading: 'shop', shows: 'nightly' },
  Metrics: { path: '/apps/shop/metrics', heading: 'shop' },
  Scale: { path: '/apps/shop/scale', heading: 'shop' },
  Environment: { path: '/apps/shop/environment', heading: 'shop', shows: 'LEVEL' },
  Network: { path: '/apps/shop/network', heading: 'shop' },
  AppVolumes: { path: '/apps/shop/volumes', heading: 'shop' },
  Settings: { path: '/apps/shop/settings', heading: 'shop' },
  DeploymentPage: { path: '/apps/hello/deployments/{job}', heading: /mote-sample/, shows: 'hello is online' },
  Templates: { path: '/templates', heading: 'Templates', shows: 'WordPress' },
  TemplatePage: { path: '/templates/wordpress', heading: 'WordPress', shows: 'wordpress-db' },
  Volumes: { path: '/volumes', heading: 'Volumes', shows: 'pictures' },
  VolumePage: { path: '/volumes/{volume}', heading: 'pictures' },
  Databases: { path: '/databases', heading: 'Databases', shows: 'orders' },
  DatabasePage: { path: '/databases/{database}', heading: /orders/, shows: 'Commands to copy' },
  Mesh: { path: '/mesh', heading: 'Mesh' },
  Hosts: { path: '/hosts', heading: 'Hosts', shows: 'host-1' },
  Billing: { path: '/billing', heading: 'Billing', shows: 'Limits' },
  Notifications: { path: '/notifications', heading: 'Notifications' },
  Audit: { path: '/audit', heading: 'Audit log', shows: 'deployment.create' },
  Members: { path: '/projects/{project}/members', heading: 'Members' },
  ProjectSettings: { path: '/projects/{project}', heading: 'Project settings' },
  Profile: { path: '/account', heading: 'Account' },
  Security: { path: '/account/security', heading: 'Account' },
  Sessions: { path: '/account/sessions', heading: 'Account' },
  SshKeys: { path: '/account/ssh-keys', heading: 'Account' },
  Tokens: { path: '/account/tokens', heading: 'Account' },
  Overview: { path: '/apps/shop', heading: 'shop', shows: 'nginx:1.28' },
}
/** Components in router.tsx that are no pages, but frames around pages. */
const frames = ['AppFrame', 'AccountFrame']

it('every page of the router is tested', async () => {
  const router = await readFile(join(root, 'dashboard/src/router.tsx'), 'utf8')
  const pages = [...router.matchAll(/lazyRouteComponent\(\(\) => import\('[^']+'\), '(\w+)'\)/g)].map(match => match[1])
  expect(pages.length).toBeGreaterThan(35)
  expect(pages.filter(name => name && !frames.includes(name)).toSorted()).toEqual(
    Object.keys(places)
      .filter(name => name !== 'FirstApp')
      .toSorted(),
  )
})

browserSuite('every page of the dashboard', () => {
  vi.setConfig({ testTimeout: 60_000 })
  let browser: Browser
  let system: TestSystem
  let ada: Walker
  /**
   * Only for the documentation's screenshots: a second browser that has collected metrics for its charts for a while.
   */
  let charts: Visit | undefined
  let newcomer: Walker
  let stranger: Visit
  beforeAll(async () => {
    if (noBrowser) return
    await mkdir(folder, { recursive: true })
    browser = await openBrowser()
    system = await testSystem({ agents: 0 })
    const fake = { imageMs: 5, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 }
    for (const _ of [1, 2]) await system.addAgent({ fake })
    ada = await walker(system, browser, { viewport: desktop }, 'ada@example.com')
    await furnish(ada)
    if (isForDocuments) charts = await signedIn(browser, system, ada.user)
    await charts?.page.goto('/apps/shop')
    newcomer = await walker(system, browser, { viewport: desktop }, 'grace@example.com')
    stranger = await visit(browser, `http://127.0.0.1:${system.control.port}`, { viewport: desktop })
    for (const { page } of [ada, newcomer, stranger]) await watchShifts(page.context())
  }, 120_000)
  afterAll(async () => {
    for (const one of [ada, newcomer, stranger, charts]) await one?.[Symbol.asyncDispose]()
    await system?.[Symbol.asyncDispose]()
  })

  it.each(Object.entries(places))('%s is accessible', async (name, { path, heading, as, shows }) => {
    const page = { stranger, newcomer, ada }[as ?? 'ada'].page
    const address = path.replace(/\{(\w+)\}/, (_, key: keyof typeof ids) => ids[key])
    await page.setViewportSize(desktop)
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' })
    await page.goto(address)
    await page.getByRole('heading', { level: 1, name: heading }).waitFor()
    if (shows) await page.getByText(shows).filter({ visible: true }).first().waitFor()
    await page.locator('.skeleton').first().waitFor({ state: 'detached' })
    expect(await page.getByText('Something went wrong').count()).toBe(0)
    const shifts = await shiftsOf(page)
    expect(shifts.total, `${address} moves while it loads: ${shifts.what.join('\n')}`).toBeLessThan(goodShift)
    for (const { name: look, colorScheme, viewport, isAudited } of looksOf(name)) {
      await page.setViewportSize(viewport)
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      // Wait for color transitions, because the contrast is measured.
      await page.evaluate(
        'Promise.allSettled(document.getAnimations().filter(one => one instanceof CSSTransition).map(one => one.finished))',
      )
      if (isAudited) expect(await findings(page), look).toEqual([])
      expect(await overflow(page), `${look}: ${address} is wider than the window`).toBe(0)
      expect(await cardsTooWide(page), look).toEqual([])
      if (runsAll || isForDocuments) await page.screenshot({ path: join(folder, `${name}-${look}.png`) })
    }
  })

  it('no page has logged an error', () =>
    expect([ada, newcomer, stranger].flatMap(({ complaints }) => complaints)).toEqual([]))

  it.runIf(isForDocuments)('the screenshots in the documentation are updated', async () => {
    const overview = join(folder, `${ofDocuments['dashboard.png']}.png`)
    await charts?.page.emulateMedia({ colorScheme: 'light' })
    await charts?.page.screenshot({ path: overview })
    for (const [file, shot] of Object.entries(ofDocuments))
      await copyFile(join(folder, `${shot}.png`), join(root, 'docs', 'images', file))
  })
})

/** Signs a user in, in another browser. */
async function signedIn(browser: Browser, system: TestSystem, { email, password }: TestUser): Promise<Visit> {
  const observed = await visit(browser, `http://127.0.0.1:${system.control.port}`, { viewport: desktop })
  const { page } = observed
  await page.goto('/signin')
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Apps' }).waitFor()
  return observed
}

/** Creates two apps, one of them with two deployments, a job and a variable; a volume; and a database. */
async function furnish({ user }: Walker): Promise<void> {
  const deployed = async (app: string, image: string) => {
    const { job_id } = (await user.post(`/v1/apps/${app}/deploy`, { image })).body
    const serves = async () => (await user.get(`/v1/apps/${app}/deployments/${job_id}`)).body.status === 'running'
    await until(serves, { what: `${app} serves`, timeoutMs: 30_000 })
    return job_id
  }
  await user.post('/v1/apps', { name: 'shop', git_url: '' })
  await user.post('/v1/apps', { name: 'hello', git_url: '', health_check_path: '/health' })
  await user.call('PUT', '/v1/apps/shop/env/LEVEL', { value: 'info', secret: false })
  const job = { schedule: '30 2 * * *', command: ['node', 'report.js'], time_zone: 'Europe/Berlin' }
  await user.call('PUT', '/v1/apps/shop/jobs/nightly', job)
  ids.volume = (await user.post('/v1/volumes', { name: 'pictures', size_mib: 1024 })).body.id
  ids.database = (await user.post('/v1/databases', { name: 'orders', engine: 'postgres' })).body.id
  ids.project = user.project
  await deployed('shop', 'docker.io/library/nginx:1.27')
  await deployed('shop', 'docker.io/library/nginx:1.28')
  ids.job = await deployed('hello', sampleImage)
  const isUp = async () => (await user.get(`/v1/databases/${ids.database}`)).body.status === 'running'
  await until(isUp, { what: 'the database runs', timeoutMs: 30_000 })
}
