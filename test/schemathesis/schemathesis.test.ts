// Not repeated on the distribution's PostgreSQL: this file tests the API, not the database server.
/**
 * Runs schemathesis over the whole OpenAPI document: no 5xx, no undocumented status, no response that violates its
 * schema.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { tokenOf } from '../statuses/account.ts'
import { apps, deployments } from '../statuses/compute.ts'
import { databases, volumes } from '../statuses/storage.ts'
import { createWorld, type World } from '../statuses/world.ts'
import { endingProxy } from './ending-proxy.ts'
import { settings } from './settings.ts'

const bin = process.env['MOTE_SCHEMATHESIS'] ?? ''
const options: { examples?: string; only?: string; seed?: string } = JSON.parse(
  process.env['MOTE_SCHEMATHESIS_OPTIONS'] ?? '{}',
)

let world: World
let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-schemathesis-'))
  world = await createWorld()
  for (const seed of [apps, deployments, volumes, databases]) await seed(world)
}, 300_000)
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

it('schemathesis finds no violation of the OpenAPI document', { timeout: 3_600_000 }, async () => {
  await using proxy = await endingProxy(world.system.control.port)
  const token = await tokenOf(world.ann, ['read', 'deploy', 'write', 'admin'])
  const config = join(dir, 'schemathesis.toml')
  await writeFile(
    config,
    settings({
      token,
      project: world.ann.project,
      params: world.params,
      examples: Number(options.examples ?? 5),
    }),
  )
  const child = spawn(
    join(bin, 'schemathesis'),
    [
      '--config-file',
      config,
      'run',
      `${proxy.url}/v1/api-docs/openapi.json`,
      '--url',
      proxy.url,
      '--no-color',
      ...(options.only === undefined ? [] : ['--include-path-regex', options.only]),
      ...(options.seed === undefined ? [] : ['--seed', options.seed]),
    ],
    { cwd: dir, stdio: ['ignore', 'inherit', 'inherit'] },
  )
  const [code] = await once(child, 'exit')
  process.stdout.write(`${JSON.stringify(Object.fromEntries([...proxy.statuses].toSorted()))}\n`)
  expect(code).toBe(0)
})
