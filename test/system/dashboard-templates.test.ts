// Not repeated on the distribution's PostgreSQL: this file tests the browser, not the database.
/** Finding and deploying templates in the dashboard, and continuing a failed deployment. */
import { expect, it, vi } from 'vitest'
import { overflow, seriousFindings } from '../support/browser.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { browserSuite, prepare, type Walker, walker } from '../support/walker.ts'

browserSuite('templates in the dashboard', () => {
  vi.setConfig({ testTimeout: 60_000 })
  let system: TestSystem
  let ada: Walker
  prepare(async (browser, undo) => {
    system = undo.use(await testSystem({ agents: 0 }))
    await system.addAgent({ fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
    ada = undo.use(await walker(system, browser))
  })

  it('are found by word and category', async () => {
    await ada.page.getByRole('link', { name: 'Templates', exact: true }).click()
    const cards = ada.page.getByRole('list', { name: 'Templates' }).getByRole('listitem')
    await cards.first().waitFor()
    expect(await cards.count()).toBeGreaterThanOrEqual(20)
    await ada.field('Category').selectOption('websites')
    expect(await cards.count()).toBe(3)
    await ada.field('Find a template').fill('blog wordpress')
    expect(await cards.allInnerTexts()).toEqual([expect.stringContaining('WordPress')])
    await ada.field('Find a template').fill('nothing like it')
    await ada.says('No template matches')
  })

  it('show the generated password and links to the apps, also if deployment is continued after a failure', async () => {
    await ada.open('/templates/wordpress', 'WordPress')
    const parts = ada.page.getByRole('list', { name: 'What is created' }).getByRole('listitem')
    await ada.field('Name').fill('blog')
    await parts.filter({ hasText: 'blog-db' }).waitFor()
    const password = await ada.field('Password of the database').inputValue()
    expect(password).toMatch(/^\w{32}$/)
    const volumes = '**/v1/volumes'
    await ada.page.route(volumes, route =>
      route.request().method() === 'POST' ? route.fulfill({ status: 400, json: { error: 'No.' } }) : route.fallback(),
    )
    await ada.button('Deploy').click()
    await ada.page.getByRole('alert').getByText('it continues from here').waitFor()
    await ada.page.unroute(volumes)
    expect(await ada.field('Password of the database').inputValue()).toBe(password)
    await ada.button('Continue').click()
    await ada.page.getByRole('heading', { name: 'blog runs' }).waitFor()
    expect(await ada.page.getByLabel('Password of the database', { exact: true }).textContent()).toBe(password)
    expect([await seriousFindings(ada.page), await overflow(ada.page)]).toEqual([[], 0])
    await ada.page.getByRole('link', { name: 'blog-db' }).click()
    await ada.page.getByRole('heading', { level: 1, name: 'blog-db' }).waitFor()
  })

  it('are not deployed under the name of an existing app', async () => {
    await ada.open('/templates/grafana', 'Grafana')
    await ada.field('Name').fill('blog')
    await ada.button('Deploy').click()
    await ada.says('The app blog already exists. Choose another name.')
  })
})
