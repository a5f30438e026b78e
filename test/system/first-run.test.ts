// Not repeated on the distribution's PostgreSQL: this file tests the first steps of a new user, not the database.
/** A new account gets to a running app in three clicks, or two commands. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { sampleApp, sampleImage } from '../../src/lib/sample.ts'
import { openBrowser, overflow, seriousFindings } from '../support/browser.ts'
import { cli } from '../support/cli.ts'
import { freePort } from '../support/free-port.ts'
import { viaGateway } from '../support/http.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { browserSuite } from '../support/walker.ts'

vi.setConfig({ testTimeout: 60_000 })
const password = 'quartz-otter-lantern-42'
let system: TestSystem
let base = ''

beforeAll(async () => {
  const port = await freePort()
  system = await testSystem({ agents: 0, config: { gatewayUrl: `http://localhost:${port}` }, gateway: { port } })
  await system.addAgent({ fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
  base = `http://127.0.0.1:${system.control.port}`
}, 120_000)
afterAll(async () => system[Symbol.asyncDispose]())

browserSuite('the first run in the dashboard', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await openBrowser()
  }, 60_000)
  afterAll(async () => {
    for (const context of browser.contexts()) await context.close()
  })

  it("takes three clicks from the sign-up form to the sample app's page", async () => {
    // Do not use `visit`, which reports requests to other origins: the app that this page opens has another origin.
    const context = await browser.newContext({ baseURL: base, viewport: { width: 390, height: 844 } })
    context.setDefaultTimeout(25_000)
    let clicks = 0
    await context.exposeFunction('countClick', () => {
      clicks++
    })
    await context.addInitScript(`addEventListener('click', event => event.isTrusted && countClick(), true)`)
    const page = await context.newPage()
    await page.goto('/signup')
    await page.getByLabel('First name').fill('Grace')
    await page.getByLabel('Email').fill('grace@example.com')
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Create account' }).click()
    const ways = page.getByRole('list', { name: 'Ways to your first app' }).getByRole('listitem')
    await ways.first().waitFor()
    expect(await ways.getByRole('heading').allTextContents()).toEqual([
      ' The sample',
      ' A folder',
      ' A repository or an image',
    ])
    expect([await seriousFindings(page), await overflow(page)]).toEqual([[], 0])
    await page.getByRole('button', { name: 'Deploy the sample' }).click()
    await page.waitForURL(`**/apps/${sampleApp.name}/deployments/**`)
    const online = page.getByRole('heading', { name: `${sampleApp.name} is online` })
    await online.waitFor()
    // The link must be visible without scrolling.
    expect((await online.boundingBox())?.y).toBeLessThan(400)
    expect([await seriousFindings(page), await overflow(page)]).toEqual([[], 0])
    const opened = context.waitForEvent('page')
    await page.getByRole('link', { name: /^hello-.*opens in a new tab/ }).click()
    const app = await opened
    await app.waitForLoadState()
    expect(new URL(app.url()).hostname).toMatch(/^hello-.*\.localhost$/)
    expect(clicks).toBe(3)
    await context.close()
  })

  it('offers to deploy a folder, repository or image instead of the sample', async () => {
    const { email } = await system.user()
    const page = await browser.newPage({ baseURL: base })
    await page.goto('/signin')
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    for (const [way, source] of [
      ['Choose a folder', 'Folder'],
      ['Repository', 'Git repository'],
      ['Image', 'Container image'],
    ] as const) {
      await page.getByRole('link', { name: way, exact: true }).click()
      await page.getByRole('radio', { name: source, checked: true }).waitFor()
      await page.goBack()
    }
    await page.close()
  })

  it('offers the sample again after its deployment was rejected', async () => {
    const { email } = await system.user()
    const page = await browser.newPage({ baseURL: base })
    await page.goto('/signin')
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    const path = '**/v1/apps/hello/deploy'
    await page.route(path, route => route.fulfill({ status: 400, json: { error: 'No room.' } }))
    await page.getByRole('button', { name: 'Deploy the sample' }).click()
    await page.getByText('No room.').waitFor()
    await page.unroute(path)
    await page.getByRole('button', { name: 'Deploy the sample' }).click()
    await page.getByRole('heading', { name: 'hello is online' }).waitFor()
    await page.close()
  })
})

it("the first run in the CLI takes two commands from signing in to the app's URL", async () => {
  const user = await system.user()
  const home = await mkdtemp(join(tmpdir(), 'mote-first-run-'))
  try {
    const mote = cli({ home, env: {} })
    const signedIn = await mote.run(['login', '--url', base, '--token', user.token ?? ''])
    expect([signedIn.code, signedIn.out]).toEqual([0, expect.stringContaining('no apps yet')])
    const next = /Try the sample: mote ([\w -]+)\./.exec(signedIn.out)?.[1] ?? ''
    const launched = await mote.run(next.split(' '), { cwd: home })
    expect(launched).toMatchObject({ code: 0 })
    const url = new URL(/^hello serves at (\S+)$/m.exec(launched.out)?.[1] ?? '')
    expect((await viaGateway(system.gateway.port, url.hostname)).status).toBe(200)
    expect((await user.get('/v1/apps/hello/deployments')).body).toEqual([
      expect.objectContaining({ image: sampleImage, status: 'running' }),
    ])

    const again = await mote.run(['login', '--url', base, '--token', user.token ?? ''])
    expect(again.out).not.toContain('no apps yet')
    const both = await mote.run(['launch', '--sample', '--image', 'nginx'], { cwd: home })
    expect([both.code, both.err]).toEqual([1, expect.stringContaining('Leave out --image')])
    expect((await mote.run(['launch', '--sample', '--name', 'second'], { cwd: home })).code).toBe(0)
  } finally {
    await rm(home, { recursive: true, force: true })
  }
})
