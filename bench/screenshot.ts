/** Makes docs/images/dashboard.png: the page of an app with three VMs on a simulated host. */
import { mkdir } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { chromium } from 'playwright-core'
import { findProgram } from '../src/lib/programs.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'

const executablePath = await findProgram('chromium')
if (executablePath === undefined) throw new Error('Chromium is missing: apt-get install chromium')
await using cloud = await startBenchCloud('fake', { MOTE_GATEWAY_URL: 'http://localhost:7080' })
await deployShop(cloud)
await mkdir('docs/images', { recursive: true })
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-background-networking'] })
try {
  const page = await browser.newPage({ baseURL: cloud.apiUrl, viewport: { width: 1280, height: 800 } })
  page.setDefaultTimeout(60_000)
  await page.goto('/signin')
  await page.getByLabel('E-mail').fill(cloud.person.email)
  await page.getByLabel('Password').fill(cloud.person.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Apps' }).waitFor()
  await page.goto('/apps/shop')
  await page
    .getByText(/^running$/i)
    .first()
    .waitFor()
  // The charts of the page need measurements of some time.
  await pause(45_000)
  await page.screenshot({ path: 'docs/images/dashboard.png' })
} finally {
  await browser.close()
}

async function deployShop({ client }: BenchCloud): Promise<void> {
  const { hostname } = await client.createApp({ body: { name: 'shop', git_url: '' } })
  await client.deployApp({ app_name: 'shop', body: { image: 'docker.io/library/nginx:1.27' } })
  await untilAnswer(cloud, hostname ?? '')
  await client.scaleApp({ app_name: 'shop', body: { min_replicas: 2, max_replicas: 5, desired_replicas: 3 } })
  await client.deployApp({ app_name: 'shop', body: { image: 'docker.io/library/nginx:1.28' } })
  await untilAnswer(cloud, hostname ?? '')
}
