// Not repeated on the distribution's PostgreSQL: this file tests the files of a build, not the database.
/** The built programs find the files that they need at run time, and start their worker threads. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, realpath, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { programFile } from '../../scripts/build.mjs'
import { run } from '../../src/lib/exec.ts'
import { productVersion } from '../../src/lib/version.ts'
import { api } from '../support/api.ts'
import { builtProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'

const outDir = dirname(await builtProgram())
const reaper = startReaper()
let dataDir: string
let child: ChildProcess
let url: string

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mote-test-'))
  const args = [
    'up',
    '--data',
    dataDir,
    '--port',
    '0',
    '--gateway-port',
    '0',
    '--ssh-port',
    '0',
    '--hypervisor',
    'fake',
  ]
  child = spawn(process.execPath, [join(outDir, 'mote.js'), ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  reaper.killAtEnd(child.pid ?? 0)
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    output += text
  })
  const found = await until(() => /"api":"(http:[^"]+)"/.exec(output), {
    timeoutMs: 60_000,
    what: 'the built cloud to be ready',
  })
  url = found[1] ?? ''
}, 120_000)
afterAll(async () => {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
  reaper.finish()
  await rm(dataDir, { recursive: true, force: true })
}, 120_000)

it('the build consists of a few JavaScript files', async () => {
  expect(await run(process.execPath, [join(outDir, 'mote.js'), '--version'])).toBe(`${productVersion}\n`)
  expect((await readdir(outDir)).filter(name => !name.endsWith('.js'))).toEqual([])
  expect(programFile()).toMatch(/(?:dist\/mote\.js|src\/cli\/main\.ts)$/)
})

it('mote install --print of a built program prints systemd units that start bin/mote', async () => {
  for (const program of ['control', 'gateway', 'agent']) {
    const unit = await run(process.execPath, [join(outDir, 'mote.js'), 'install', program, '--print'])
    const [, started = ''] = /^ExecStart="([^"]+)" /m.exec(unit) ?? []
    expect(await realpath(started), program).toBe(join(await realpath('.'), 'bin', 'mote'))
  }
})

it('a built program finds its fonts, pages, word lists and migrations, and hashes passwords in a thread', async () => {
  const anonymous = api(url)
  const captcha = await anonymous.get('/v1/auth/captcha')
  expect(captcha.body.captcha_image).toMatch(/^data:image\/png;base64,/)
  expect((await fetch(`${url}/v1/docs/assets/swagger-ui.css`)).status).toBe(200)
  const common = { email: 'one@example.com', password: 'password1234', captcha_id: '', captcha_answer: '' }
  expect((await anonymous.post('/v1/auth/register', common)).body.error).toContain('password')
  const login = { email: 'nobody@example.com', password: 'quartz-otter-lantern-42' }
  expect((await anonymous.post('/v1/auth/login', login)).status).toBe(401)
})

it('built files save memory: they are Latin-1, and none imports node:http statically', async () => {
  for (const name of await readdir(outDir)) {
    const code = await readFile(join(outDir, name), 'utf8')
    expect(/[^\0-\xff]/.exec(code)?.[0], name).toBeUndefined()
    expect(code, name).not.toMatch(/^import .*"node:http"/m)
  }
})
