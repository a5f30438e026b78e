/** Measures the time from opening the dashboard in a browser with an empty cache to a usable list of apps. */
import { performance } from 'node:perf_hooks'
import { chromium } from 'playwright-core'
import { findProgram } from '../src/lib/programs.ts'
import { startBenchCloud } from './cloud.ts'
import type { Benchmark } from './benchmark.ts'

const rounds = 7

export const dashboard: Benchmark = {
  name: 'dashboard',
  goal: 'the dashboard is interactive at most 1 s after opening its address, with an empty cache',
  unable: async () =>
    (await findProgram('chromium')) === undefined ? 'no chromium: apt-get install chromium' : undefined,
  async run(report) {
    await using cloud = await startBenchCloud('fake')
    const executablePath = (await findProgram('chromium')) ?? ''
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-background-networking'] })
    try {
      const times: number[] = []
      for (let round = 0; round < rounds; round++) {
        const context = await browser.newContext({ baseURL: cloud.apiUrl })
        const first = await context.newPage()
        await first.goto('/signin')
        await first.getByLabel('E-mail').fill(cloud.person.email)
        await first.getByLabel('Password').fill(cloud.person.password)
        await first.getByRole('button', { name: 'Sign in' }).click()
        await first.getByRole('heading', { name: 'Apps' }).waitFor()
        const session = await context.storageState()
        await context.close()
        const empty = await browser.newContext({ baseURL: cloud.apiUrl, storageState: session })
        const page = await empty.newPage()
        const began = performance.now()
        await page.goto('/apps', { waitUntil: 'commit' })
        await page.getByText('No apps yet').waitFor()
        times.push(performance.now() - began)
        await empty.close()
      }
      report.verdict(
        'time from opening the address to a usable page (median), s',
        report.samples('address to usable page', 'ms', times).median / 1000,
        1,
      )
    } finally {
      await browser.close()
    }
  },
}
