/**
 * Tests that programs started by the agent get only a few of the agent's environment variables (/proc/self/environ).
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { run } from '../lib/exec.ts'
import { hasProgram } from '../lib/programs.ts'
import { limited } from './build/git-run.ts'
import { agentConfig } from './base/config.ts'
import { endProcess, spawnVmm } from './hypervisor/process.ts'
import { qemuBinary, spawnQemu } from './hypervisor/qemu/spawn.ts'
import { openLauncher, noLauncher } from './launcher/launcher.ts'
import { testDir } from '../../test/support/agent/agent.ts'
import { openWorker } from './worker/worker.ts'

const secret = 'hunter2-of-the-agent'
/** Variables that an operator may set, by hand or in the unit file. */
const secrets = [
  'MOTE_GITHUB_PRIVATE_KEY',
  'MOTE_SMTP_PASSWORD',
  'DATABASE_URL',
  'MOTE_BUS_TOKEN',
  'AWS_SECRET_ACCESS_KEY',
]
const forNetwork = {
  HTTPS_PROXY: 'http://proxy.example:3128',
  http_proxy: 'http://proxy.example:3129',
  SSL_CERT_FILE: '/etc/ssl/own.pem',
  GIT_SSL_CAINFO: '/etc/ssl/own.pem',
}
const ofNetwork = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...['SSL_CERT_FILE', 'SSL_CERT_DIR', 'GIT_SSL_CAINFO', 'CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS'],
]
const before = { ...process.env }
beforeAll(() => {
  for (const name of secrets) process.env[name] = secret
  Object.assign(process.env, forNetwork, { TZ: 'UTC' })
})
afterAll(() => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
  Object.assign(process.env, before)
})

const { cacheDir } = agentConfig({ dataDir: '/nowhere', hostName: 'test' })
const hasQemu = await hasProgram(qemuBinary)
const launcher = await openLauncher(cacheDir).catch(() => undefined)
afterAll(() => launcher?.close())

const environOf = (pid: number) => readFile(`/proc/${pid}/environ`, 'latin1')
const namesIn = (environ: string) =>
  environ
    .split('\0')
    .filter(Boolean)
    .map(line => line.slice(0, line.indexOf('=')))
/** Variables that a shell adds itself. */
const ofShell = new Set(['PWD', 'SHLVL', '_', 'OLDPWD'])
const local = ['HOME', 'LC_ALL', 'PATH', 'TMPDIR', 'TZ']
const check = (environ: string, more: readonly string[] = []) => {
  expect(environ).not.toContain(secret)
  const allowed = new Set([...local, ...more])
  expect(namesIn(environ).filter(name => !allowed.has(name) && !ofShell.has(name))).toEqual([])
}

describe('a short-lived program', () => {
  test('has no secret and no proxy settings in its environment', async () => {
    const environ = await run('cat', ['/proc/self/environ'])
    check(environ)
    expect(namesIn(environ)).toEqual(expect.arrayContaining(['HOME', 'LC_ALL', 'PATH', 'TZ']))
  })

  test('that uses the network has the proxy settings and the certificates of the host', async () => {
    const environ = await run('cat', ['/proc/self/environ'], { network: true, env: { OWN: '1' } })
    check(environ, [...ofNetwork, 'OWN'])
    for (const [name, value] of Object.entries(forNetwork)) expect(environ.split('\0')).toContain(`${name}=${value}`)
  })

  test('that git runs under resource limits has the proxy settings, but no secret', async () => {
    const limits = { maxBytes: 1 << 20, timeoutMs: 10_000, signal: AbortSignal.timeout(10_000) }
    using worker = await openWorker({ program: undefined, reason: '' }, '/', { signal: limits.signal })
    check(await limited(worker, ['cat', '/proc/self/environ'], limits, { GIT_TERMINAL_PROMPT: '0' }), [
      'GIT_TERMINAL_PROMPT',
    ])
    const program = ['git', '-c', 'alias.show-env=!cat /proc/self/environ', 'show-env']
    const environ = await limited(worker, program, limits, { HOME: '/nonexistent' })
    expect(environ).not.toContain(secret)
    expect(environ.split('\0')).toContain(`HTTPS_PROXY=${forNetwork.HTTPS_PROXY}`)
  })

  test.skipIf(!launcher)('of the launcher has no secret, and neither has the launcher (needs a compiler)', async () => {
    const environ = await launcher?.run('sh', [
      '-c',
      'cat /proc/self/environ; echo; tr "\\0" "\\n" < /proc/$PPID/environ',
    ])
    expect(environ).toContain('LC_ALL=C')
    expect(environ).not.toContain(secret)
  })
})

describe('a VMM', () => {
  test('with an API socket (Firecracker, Cloud Hypervisor) has an empty environment', async () => {
    await using dir = await testDir()
    const vmm = await spawnVmm({ name: 'sleep', program: 'sleep', args: ['60'], dir: dir.path, env: {} })
    await until(async () => (await readFile(`/proc/${vmm.identity.pid}/comm`, 'utf8')) === 'sleep\n', {
      what: 'it runs',
    })
    expect(await environOf(vmm.identity.pid)).toBe('')
    await endProcess({ process: vmm.identity })
  })

  const nothing = ['-M', 'none', '-nodefaults', '-display', 'none', '-S']
  test.skipIf(!hasQemu)('that is QEMU has no secret, with and without the launcher (needs qemu)', async () => {
    await using dir = await testDir()
    for (const starter of [noLauncher, ...(launcher ? [launcher] : [])]) {
      const vmm = await spawnQemu(starter, { dir: dir.path, args: nothing, env: { LD_BIND_NOW: '1' } })
      await until(async () => (await environOf(vmm.identity.pid)).includes('LD_BIND_NOW'), { what: 'it runs' })
      check(await environOf(vmm.identity.pid), ['LD_BIND_NOW'])
      await endProcess({ process: vmm.identity })
    }
  })
})

test("an environment variable set for one program overrides the agent's variable of the same name", async () => {
  await using dir = await testDir()
  const environ = await run('cat', ['/proc/self/environ'], { env: { HOME: join(dir.path, 'own') } })
  expect(environ.split('\0')).toContain(`HOME=${join(dir.path, 'own')}`)
})
