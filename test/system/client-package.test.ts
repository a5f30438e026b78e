// Not repeated on the distribution's PostgreSQL: this file tests the package, not the database.
/**
 * The npm package `@mote/client` as users get it: packed, installed into an empty folder, type-checked, and used with a
 * running cloud.
 */
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { run } from '../../src/lib/exec.ts'
import { type TestSystem, testSystem, type TestUser } from '../support/system.ts'

const source = new URL('../../src/client', import.meta.url).pathname

/** A program that uses the package. It prints what it has observed as JSON. */
const program = `
import { ApiFailure, createClient, everyItem, type App } from '@mote/client'

const [baseUrl = '', token = ''] = process.argv.slice(2)
const keys: string[] = []
let lost = false
const client = createClient({
  baseUrl,
  token: () => token,
  // Lose the response to the first POST, after the server has processed the request.
  fetch: async (input, init) => {
    const answer = await fetch(input, init)
    const key = new Headers(init?.headers).get('idempotency-key')
    if (key) keys.push(key)
    if (init?.method === 'POST' && !lost) {
      lost = true
      await answer.body?.cancel()
      throw new TypeError('the connection was lost')
    }
    return answer
  },
})
const app: App = await client.createApp({ body: { name: 'one', git_url: '' } })
await client.createApp({ body: { name: 'two', git_url: '' } })
await client.createApp({ body: { name: 'three', git_url: '' } })
const names: string[] = []
for await (const { name } of everyItem(query => client.listApps({ query }), 2)) names.push(name)
await client.deployApp({ app_name: 'one', body: { image: 'oci:hello' } })
const lines: unknown[] = []
for await (const { event, data } of client.streamAppLogs({ app_name: 'one' })) {
  if (event === 'log') lines.push(data)
  if (lines.length > 0) break
}
const refused = await client.createApp({ body: { name: 'one', git_url: '' } }).catch((cause: unknown) => cause)
const code = refused instanceof ApiFailure ? refused.code : undefined
// @ts-expect-error -- a field that the contract does not have
const wrong: string = app.colour
console.log(JSON.stringify({ id: app.id, keys: keys.slice(0, 2), names, lines: lines.length, code, wrong }))
`

let system: TestSystem
let user: TestUser
let dir = ''
beforeAll(async () => {
  system = await testSystem()
  user = await system.user()
  dir = await mkdtemp(join(tmpdir(), 'mote-client-package-'))
})
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

it('@mote/client can be packed, installed, type-checked and used', { timeout: 120_000 }, async () => {
  const [copy, folder] = [join(dir, 'client'), join(dir, 'folder')]
  await cp(source, copy, { recursive: true, filter: path => !/\.test\.ts$|\/dist$/.test(path) })
  await mkdir(folder)
  const npm = (cwd: string, ...args: string[]) => run('npm', [...args, '--offline', '--no-audit', '--no-fund'], { cwd })
  await npm(copy, 'pack', '--pack-destination', dir)
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  await npm(folder, 'install', join(dir, 'mote-client-0.1.0.tgz'))
  await writeFile(join(folder, 'use.ts'), program)
  const types = new URL('../../node_modules/@types', import.meta.url).pathname
  const checks = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--lib', 'es2024,dom']
  await run('tsc', ['--ignoreConfig', ...checks, '--typeRoots', types, '--types', 'node', 'use.ts'], { cwd: folder })

  const said = await run(process.execPath, ['use.ts', system.control.url, user.token ?? ''], { cwd: folder })
  const observed = JSON.parse(said)
  expect(observed).toMatchObject({ names: ['three', 'two', 'one'], lines: 1, code: 'name_taken' })
  expect(observed.keys[0], 'the retry has the same key').toBe(observed.keys[1])
  const { body } = await user.get('/v1/apps')
  expect(body.map((app: { id: string }) => app.id)).toContain(observed.id)
})
