/** Tests which image registry a control plane starts by default. */
import { existsSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { testDir } from '../../test/support/agent/agent.ts'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { freePort } from '../../test/support/free-port.ts'
import { testLog } from '../../test/support/log.ts'
import { parseControlConfig } from '../control/base/config.ts'
import { openRegistry } from './registries.ts'
import { readSettings } from './settings.ts'

const missing = existsSync('/usr/bin/docker-registry') ? '' : ' (needs docker-registry)'

describe.skipIf(missing !== '')(`the default registry of a control plane${missing}`, { timeout: 30_000 }, () => {
  let database: TestDatabase
  let dir: Awaited<ReturnType<typeof testDir>>
  let scope: AsyncDisposableStack
  let port: number
  beforeEach(async () => {
    database = await testDatabase()
    dir = await testDir()
    await chmod(dir.path, 0o711)
    scope = new AsyncDisposableStack()
    port = await freePort()
  })
  afterEach(async () => {
    await scope.disposeAsync()
    await dir[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
  })

  const open = (name: string, flags: object = {}, env: Record<string, string> = {}) => {
    const settings = readSettings({ data: join(dir.path, name), ...flags }, {})
    const config = parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8), ...env })
    return openRegistry(scope, settings, { config, db: database.db, log: testLog() }, port)
  }
  const answers = async () => (await fetch(`http://127.0.0.1:${port}/v2/`).catch(() => undefined))?.status === 401

  it('is started by the first control plane and used by the others', async () => {
    const url = `http://localhost:${port}`
    expect(await open('first')).toEqual({ url })
    expect(await answers()).toBe(true)
    expect(await open('second')).toEqual({ url })
  })

  it('has the hostname of the API if it listens on more than loopback', async () => {
    const env = { MOTE_PUBLIC_URL: 'https://cloud.example.com' }
    expect(await open('one', { listen: '0.0.0.0' }, env)).toEqual({ url: `http://cloud.example.com:${port}` })
  })

  it('is left out with a reason if the default port is in use, and started the next time', async () => {
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    expect(await open('one')).toEqual({
      url: '',
      note: expect.stringMatching(/^There is no registry for images\. Port \d+ is in use: .*--registry-port/),
    })
    await expect(open('one', { registryPort: String(port) })).rejects.toThrow(/in use/)
    server.close()
    await once(server, 'close')
    expect(await open('one')).toEqual({ url: `http://localhost:${port}` })
  })

  it.each([
    [{ registryPort: '' }, {}, ''],
    [{}, { MOTE_REGISTRY: 'registry.example/apps' }, ''],
    [{}, { MOTE_REGISTRY_URL: 'https://registry.example' }, 'https://registry.example'],
  ])('is not started with the flags %j and the environment %j', async (flags, env, url) => {
    expect(await open('one', flags, env)).toEqual({ url })
    expect(await answers()).toBe(false)
  })
})
