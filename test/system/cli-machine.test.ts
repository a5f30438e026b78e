// Not repeated on the distribution's PostgreSQL: this file tests the CLI, not the database.
/** CLI commands that open a browser, select a project, manage hosts, or build kernels and images; and Ctrl-C. */
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { agentConfig } from '../../src/agent/base/config.ts'
import { itInAll } from '../support/all-examples.ts'
import { type Cli, cli } from '../support/cli.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

vi.setConfig({ testTimeout: 120_000 })
let system: TestSystem
let user: TestUser
let home = ''
let mote: Cli
let signedOut: Cli

beforeAll(async () => {
  system = await testSystem({ agents: 2 })
  user = await system.user()
  home = await mkdtemp(join(tmpdir(), 'mote-cli-'))
  // A fake browser that records the address to open.
  await mkdir(join(home, 'bin'))
  await writeFile(join(home, 'bin', 'xdg-open'), `#!/bin/sh\nprintf %s "$1" > "${home}/opened"\n`)
  await chmod(join(home, 'bin', 'xdg-open'), 0o755)
  const env = { MOTE_URL: system.control.url, PATH: `${join(home, 'bin')}:${process.env.PATH ?? ''}` }
  mote = cli({ home, env: { ...env, MOTE_TOKEN: user.token ?? '' } })
  signedOut = cli({ home, env })
}, 120_000)
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

const opened = () =>
  until(async () => existsSync(join(home, 'opened')) && readFile(join(home, 'opened'), 'utf8'), {
    what: 'the browser to be called',
  })
const host = async (name: string) =>
  (await user.get('/v1/admin/hosts')).body.find((one: { name: string }) => one.name === name)

it('mote open opens the address of an app in the browser, and prints it', async () => {
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  const { hostname } = (await user.get('/v1/apps/web')).body
  const { code, out } = await mote.run(['open', '--app', 'web'])
  expect([code, await opened()]).toEqual([0, out.trim()])
  expect(out).toContain(hostname)
  await rm(join(home, 'opened'))
})

it('mote login --browser signs in with a token that was created in the browser', async () => {
  const { token } = (await user.post('/v1/auth/tokens', { name: 'pasted', scopes: ['read'] })).body
  const { code, out } = await signedOut.onTerminal(['login', '--browser'], [[/Paste it here/, token]])
  expect(out).toContain(`as ${user.email}`)
  expect(out).not.toContain(token)
  expect([code, await opened()]).toEqual([0, `${system.control.url}/account/tokens`])
})

it('mote projects use selects the project of later commands without --project', async () => {
  await user.post('/v1/projects', { name: 'Second' })
  expect(await mote.run(['projects', 'use', 'second'])).toMatchObject({ code: 0 })
  await mote.run(['apps', 'create', 'elsewhere'])
  expect((await user.get('/v1/apps?project=second')).body).toMatchObject([{ name: 'elsewhere' }])
  expect((await user.get('/v1/apps')).body).toMatchObject([{ name: 'web' }])
  const { out } = await mote.run(['apps', 'list', '--json', '--project', user.project])
  expect(JSON.parse(out)).toMatchObject([{ name: 'web' }])
  expect((await mote.run(['projects', 'use', 'none'])).code).toBe(1)
  await mote.run(['projects', 'use', user.project])
})

describe('mote host', () => {
  it('add prints an id, a NATS user with least privilege, and the command to run on the host', async () => {
    const { code, out } = await mote.run(['host', 'add', 'fra-9', '--nats-url', 'nats://bus.example:4222', '--json'])
    const made: Record<string, string> = JSON.parse(out)
    expect(code).toBe(0)
    expect(made.command).toMatch(/^mote install agent --set NATS_URL='/)
    expect(made.command).toContain(`--set MOTE_HOST_ID=${made.hostId} --set MOTE_HOST_NAME=fra-9`)
    expect(made.users).toContain(`user: "host-${made.hostId}"`)
    expect(made.command).toContain(`nats://host-${made.hostId}:${made.password}@bus.example:4222`)
    expect(made.authorization).toContain(`host.${made.hostId}.out.>`)
    expect(made.authorization).not.toContain('host.*')
  })

  // Not in `npm test`: src/control/volumes/move.test.ts covers the report of a drain, and the test below the command.
  itInAll('drain lists the remaining volumes and why each remains', async () => {
    const { id } = (await user.post('/v1/volumes', { name: 'ledger', size_mib: 32 })).body
    await user.post(`/v1/volumes/${id}/snapshots`, { name: 'first' })
    const place = async () => (await user.get(`/v1/volumes/${id}/move`)).body.host_id
    const there = await until(place, { what: 'the volume to be placed' })
    const other = (await user.get('/v1/admin/hosts')).body.find((one: { id: string }) => one.id !== there)
    await mote.run(['host', 'cordon', other.id])
    const { code, out } = await mote.run(['host', 'drain', there])
    expect(code).toBe(0)
    expect(out).toMatch(/^VOLUME +STATE +WHY\nledger +staying +No other host has a storage pool with room for it\./m)
    expect(out).toContain('Run the command again to see progress.')
    const json = JSON.parse((await mote.run(['host', 'drain', there, '--json'])).out)
    expect(json.leaving_volumes).toMatchObject([{ volume_id: id, name: 'ledger', state: 'staying' }])
    await mote.run(['host', 'uncordon', other.id])
    const empty = async () => !(await mote.run(['host', 'drain', there])).out.includes('ledger')
    await until(empty, { what: 'the volume to leave the host', timeoutMs: 60_000 })
    expect(await place()).toBe(other.id)
    await mote.run(['host', 'uncordon', there])
    await user.delete(`/v1/volumes/${id}`)
  })

  it('cordon, uncordon, drain and remove take effect', async () => {
    const { id } = await host('host-2')
    const act = async (verb: string, says = 'host-2') =>
      expect(await mote.run(['host', verb, id])).toMatchObject({ code: 0, out: expect.stringContaining(says) })
    await act('cordon')
    expect(await host('host-2')).toMatchObject({ cordoned: true })
    await act('uncordon')
    expect(await host('host-2')).toMatchObject({ cordoned: false })
    await act('drain', 'No VMs are left on the host.')
    expect(await host('host-2')).toMatchObject({ draining: true })
    await act('remove', 'is removed')
    await until(async () => (await host('host-2')) === undefined, { what: 'the host to be removed' })
  })
})

it('Ctrl-C ends mote db create with exit code 130, and the database still starts', async () => {
  const { code, out } = await mote.onTerminal(['db', 'create', 'main'], [[/Creating main/, '\u0003']])
  expect([code, out]).toEqual([130, expect.stringContaining('Interrupted')])
  await until(async () => (await user.get('/v1/databases')).body[0]?.status === 'running', {
    what: 'the database runs',
    timeoutMs: 30_000,
  })
})

describe('commands for this machine', () => {
  const { cacheDir } = agentConfig({ dataDir: '/nonexistent', hostName: 'test' })
  const hasKernel = existsSync(join(cacheDir, 'kernel')) || existsSync(join(cacheDir, 'kernel-own'))

  it.skipIf(!hasKernel)('mote kernel show prints the kernel that guests boot (needs one in the cache)', async () => {
    const { code, out } = await mote.run(['kernel', 'show', '--cache', cacheDir, '--json'])
    const found: { version: string; kernel: string } = JSON.parse(out)
    expect([code, existsSync(found.kernel)]).toEqual([0, true])
    expect(found.version).toMatch(/^\d+\.\d+/)
  })

  it.each([
    [['image', 'build', 'postgres', '--version', 'newest'], 1, 'is not a major version'],
    [['image', 'build', 'windows'], 2, 'windows'],
    [['kernel', 'build', 'now'], 2, 'too many arguments'],
    [['host', 'add'], 2, 'missing required argument'],
  ] as const)('mote %j exits with %i and prints the reason', async (words, expected, reason) => {
    const { code, err } = await mote.run([...words])
    expect([code, err]).toEqual([expected, expect.stringContaining(reason)])
  })
})
