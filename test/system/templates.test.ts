// Not repeated on the distribution's PostgreSQL: this file tests the templates, not the database.
/**
 * Deploys templates to simulated hosts, with the CLI and with the code that the dashboard uses: some with every change,
 * all of them in `npm run test:all`. src/cli/templates.test.ts plans all of them in each run.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { parse } from 'yaml'
import { templates } from '../../src/cli/template-catalog.ts'
import { createClient } from '../../src/client/index.ts'
import type { Context } from '../../src/stack/context.ts'
import type { Template } from '../../src/compose/template.ts'
import { planStack } from '../../src/stack/plan.ts'
import { templateSource } from '../../src/stack/source.ts'
import { applyStack } from '../../src/stack/up.ts'
import { type Cli, cli } from '../support/cli.ts'
import { runsAll } from '../support/all-examples.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

vi.setConfig({ testTimeout: 60_000 })

const all = await templates(undefined)
/**
 * Templates that `npm test` deploys: the fewest that together use every key of compose files that any template uses.
 */
const examples = ['minio', 'umami']
const chosen = all.filter(({ name }) => runsAll || examples.includes(name))
let system: TestSystem
/** One user deploys with the code of the dashboard, the other one with the CLI. */
let [one, other]: TestUser[] = []
let home = ''
let mote: Cli

beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({ fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
  one = await system.user()
  other = await system.user()
  home = await mkdtemp(join(tmpdir(), 'mote-templates-'))
  mote = cli({ home, env: { MOTE_URL: system.control.url, MOTE_TOKEN: other.token ?? '' } })
}, 120_000)
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

function contextOf(user: TestUser): Context {
  const client = createClient({ baseUrl: system.control.url, token: () => user.token ?? '' })
  return {
    client,
    url: system.control.url,
    signal: new AbortController().signal,
    step: (_, run) => run(),
    explain: cause => cause,
    upload: () => Promise.reject(new Error('templates have no folders')),
    follow: (app_name, job_id) =>
      until(async () => (await client.getDeployment({ app_name, job_id })).status === 'running', {
        what: `${app_name} to run`,
      }),
  }
}

interface Row {
  readonly id: string
  readonly name: string
}

/** Returns the apps, variables, volumes and deployments of a project, without ids and host names. */
async function contentOf(user: TestUser) {
  const apps: (Row & Record<string, unknown>)[] = (await user.get('/v1/apps')).body
  const kept = apps.map(async ({ id, name }) => {
    const [app, env, volumes, deployments] = await Promise.all(
      [name, `${name}/env`, `${id}/volumes`, `${name}/deployments`].map(
        async path => (await user.get(`/v1/apps/${path}`)).body,
      ),
    )
    const pick = (row: Record<string, unknown>, names: readonly string[]) => names.map(key => row[key])
    return {
      app: pick(app, [
        'name',
        'kind',
        'stack',
        'port',
        'command',
        'arguments',
        'health_check_path',
        'desired_replicas',
      ]),
      env: env.map((row: Record<string, unknown>) => [row.name, hostless(row.value, app.hostname)]),
      volumes: volumes.map((row: Record<string, unknown>) =>
        pick(row, ['name', 'size_mib', 'mount_point', 'access_mode']),
      ),
      deployments: deployments.map((row: Record<string, unknown>) =>
        pick(row, ['status', 'image', 'vcpus', 'memory_mib', 'disk_mib']),
      ),
    }
  })
  return (await Promise.all(kept)).sort((a, b) => String(a.app[0]).localeCompare(String(b.app[0])))
}

const hostless = (value: unknown, host: string) => (typeof value === 'string' ? value.replaceAll(host, 'HOST') : value)

/** Deletes all apps and volumes of a project, so that the simulated host has capacity for the next template. */
async function clear(user: TestUser): Promise<void> {
  const apps: Row[] = (await user.get('/v1/apps')).body
  for (const { name } of apps) await user.delete(`/v1/apps/${name}`)
  await until(async () => (await user.get('/v1/apps')).body.length === 0, { what: 'the apps to go' })
  const volumes: Row[] = (await user.get('/v1/volumes')).body
  for (const { id } of volumes)
    await until(async () => (await user.delete(`/v1/volumes/${id}`)).status === 200, { what: 'the volume to go' })
}

/** Returns the compose file keys that the services of these templates use. */
const keysOf = (some: readonly Template[]) =>
  new Set(some.flatMap(({ compose }) => Object.values<object>(parse(compose).services).flatMap(Object.keys)))

it('the templates that are tested with every change use each key that any template uses', () =>
  expect(keysOf(all.filter(({ name }) => examples.includes(name)))).toEqual(keysOf(all)))

it.each(chosen.map(template => [template.name, template] as const))(
  'the template %s becomes the same apps from the dashboard as from the CLI',
  async (name, template) => {
    const [browser, terminal] = [one!, other!]
    const answers = new Map(template.questions.map(({ name: key }) => [key, `answer-to-${key}`]))
    const source = templateSource(template, 'shop', answers, 'again')
    const context = contextOf(browser)
    const set = [...answers].flatMap(([key, value]) => ['--set', `${key}=${value}`])
    const command = ['templates', 'deploy', name, '--name', 'shop', '--yes', ...set]
    // Deploy with the CLI first, then with the dashboard's code: the volumes of both might not fit onto the disk.
    const { code, err } = await mote.run(command, { cwd: home })
    expect(code, err).toBe(0)
    const fromTerminal = await contentOf(terminal)
    await clear(terminal)
    await applyStack(context, source, await planStack(context, source))
    const planned = await planStack(context, source)
    expect(planned.services.flatMap(({ plan }) => [...plan.changes, ...plan.deploys])).toEqual([])
    const content = await contentOf(browser)
    expect(content.length).toBe(planned.services.length)
    expect(content).toEqual(fromTerminal)
    await clear(browser)
  },
)
