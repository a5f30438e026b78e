// Not repeated on the distribution's PostgreSQL: this file tests the built program, not the database.
/**
 * Starts example stacks (compose files) on gVisor. Each must respond as expected, which its services only can if they
 * reach each other. docs/compose-files.md lists the stacks.
 */
import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parse } from 'yaml'
import { agentConfig } from '../../src/agent/base/config.ts'
import { ensureToolImage } from '../../src/agent/build/tool-images.ts'
import { minutes } from '../../src/lib/duration.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { runsAll } from '../support/all-examples.ts'
import { until } from '../support/wait.ts'
import { type Cloud, startCloud } from './cloud.ts'
import { stackImage } from './image.ts'

const folders = join(import.meta.dirname, 'folders')
const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const runsc = gvisor?.skip === false ? gvisor.config.programs?.runsc : undefined
let cloud: Cloud | undefined
let whyNot = ''
let home = ''

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'mote-stack-folders-'))
  if (!runsc || process.getuid?.() !== 0) return void (whyNot = 'gVisor cannot run here')
  if (!(await hasProgram('mmdebstrap'))) return void (whyNot = 'not installed: mmdebstrap')
  const image = await stackImage().catch((error: unknown) => error)
  if (typeof image !== 'string') return void (whyNot = `the image of the stacks cannot be made here: ${String(image)}`)
  const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })
  const web = await ensureToolImage({ cacheDir, imageDir: join(home, 'images') }, 'web', () => undefined)
  cloud = await startCloud({ runsc, images: [image, web] })
}, minutes(20))
afterAll(async () => {
  await cloud?.[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
}, minutes(2))

type Ask = (path: string, method?: string) => Promise<string>

/** Requests to each stack, with checks of the responses. */
const stacks: Readonly<Record<string, (ask: Ask) => Promise<void>>> = {
  'flask-redis': async ask => {
    const [one, two] = [await ask('/'), await ask('/')].map(text => Number(/seen (\d+) times/.exec(text)?.[1]))
    expect(two).toBe((one ?? 0) + 1)
  },
  'nginx-flask-postgres': async ask => {
    expect(await ask('/pear', 'POST')).toBe('200 added')
    expect(await ask('/apple', 'POST')).toBe('200 added')
    expect(await ask('/')).toBe('200 apple,pear')
  },
  // The set-up page shows that WordPress has reached its database, which takes longer to start than WordPress itself.
  'wordpress-mariadb': ask => untilAnswer(ask, '/wp-admin/install.php', /^200 [^]*WordPress/),
  'worker-queue': async ask => {
    expect(await ask('/pear', 'POST')).toBe('200 queued')
    await untilAnswer(ask, '/pear', '200 PEAR')
  },
  balanced: async ask => {
    const seen = new Set<string>()
    await until(async () => seen.add(await ask('/')).size >= 2, { what: 'both replicas', timeoutMs: 60_000 })
    expect([...seen].every(text => /^200 [0-9a-f]{32}$/.test(text))).toBe(true)
  },
  'php-memcached': async ask => {
    const [one, two] = [await ask('/'), await ask('/')].map(text => Number(/visits: (\d+)/.exec(text)?.[1]))
    expect(two).toBe((one ?? 0) + 1)
  },
  'shared-volume': async ask => {
    expect(await ask('/')).toBe('200 web of web')
    expect(await ask('/pear', 'POST')).toBe('200 written')
    await untilAnswer(ask, '/pear', '200 pear worker')
  },
  migrations: async ask => expect(await ask('/')).toBe('200 prepared (7, 1)'),
  prometheus: ask => untilAnswer(ask, '/api/v1/query?query=orders_total', /"instance":"app:8000"[^]*"42"/),
  'etcd-registry': async ask => {
    expect(await ask('/color/green', 'PUT')).toBe('200 OK')
    expect(await ask('/color')).toBe('200 green')
  },
  'nats-events': async ask => {
    expect(await ask('/pear', 'POST')).toBe('200 published')
    await untilAnswer(ask, '/', '200 pear')
  },
  'mqtt-sensors': async ask => expect(await ask('/')).toBe('200 21.5'),
}

const untilAnswer = (ask: Ask, path: string, wanted: string | RegExp) =>
  until(
    async () => {
      const text = await ask(path)
      return typeof wanted === 'string' ? text === wanted : wanted.test(text)
    },
    { what: `${path} to answer ${String(wanted)}`, timeoutMs: 60_000 },
  ).then(() => undefined)

/**
 * Stacks that `npm test` runs: the fewest that together use every supported key of compose files. `npm run test:all`
 * runs all.
 */
const examples = ['nginx-flask-postgres', 'flask-redis']
const chosen = Object.entries(stacks).filter(([name]) => runsAll || examples.includes(name))

it('every stack folder has a test', async () =>
  expect((await readdir(folders)).toSorted()).toEqual(Object.keys(stacks).toSorted()))

/** Returns the compose file keys that the services of these stacks use. */
async function keysOf(names: readonly string[]): Promise<Set<string>> {
  const keys = new Set<string>()
  for (const name of names) {
    const { services } = parse(await readFile(join(folders, name, 'compose.yaml'), 'utf8'), { merge: true })
    for (const service of Object.values(services)) for (const key of Object.keys(Object(service))) keys.add(key)
  }
  return keys
}

it('the stacks that run with every change use each key that any stack uses', async () => {
  const [chosenKeys, allKeys] = [await keysOf(examples), await keysOf(Object.keys(stacks))]
  expect(allKeys.size).toBeGreaterThan(10)
  expect([...allKeys].filter(key => !chosenKeys.has(key))).toEqual([])
})

it.for(chosen)(
  'the stack %s starts, responds and is removed',
  { timeout: minutes(6) },
  async ([name, check], context) => {
    context.skip(!cloud, whyNot)
    if (!cloud) return
    const folder = join(home, name)
    await cp(join(folders, name), folder, { recursive: true })
    try {
      const said = await cloud.mote(['compose', 'up', '--yes'], folder)
      const [, url = ''] = /serves at (\S+)/.exec(said) ?? []
      expect(url, said).toMatch(/^http/)
      const { ask } = cloud
      await check((path, method) => ask(url, path, method))
      expect(await cloud.mote(['compose', 'up'], folder)).toContain('No changes')
    } finally {
      await cloud.mote(['compose', 'down', '--volumes', '--yes'], folder)
    }
  },
)
