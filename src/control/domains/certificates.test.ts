/**
 * Requests certificates from a real certificate authority (Pebble), and checks that a real gateway presents them in TLS
 * handshakes.
 */
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { startTestDns } from '../../../test/support/control/domains.ts'

const pebble = '/usr/bin/pebble'

/**
 * Starts the certificate authority. It resolves names at the DNS server `dns` and validates challenges at `httpPort`.
 */
async function startAuthority(dir: string, dns: string, httpPort: number) {
  const [crt, key] = [join(dir, 'api.crt'), join(dir, 'api.key')]
  await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost'],
    ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', crt],
  ])
  const [api, management] = [await freePort(), await freePort()]
  const config = {
    listenAddress: `127.0.0.1:${api}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: crt,
    privateKey: key,
    httpPort,
    tlsPort: httpPort,
    ocspResponderURL: '',
    externalAccountBindingRequired: false,
    certificateValidityPeriod: 86_400,
  }
  const file = join(dir, 'pebble.json')
  await writeFile(file, JSON.stringify({ pebble: config }))
  // Disables the random delays and refusals with which Pebble tests ACME clients.
  const env = { PATH: process.env['PATH'] ?? '', PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '0' }
  const child = spawn(pebble, ['-config', file, '-dnsserver', dns], { env, stdio: 'ignore' })
  return {
    directory: `https://localhost:${api}/dir`,
    crt,
    async stop() {
      const gone = new Promise(resolve => child.once('exit', resolve))
      child.kill('SIGKILL')
      await gone
    },
  }
}

const shownAt = (port: number, servername: string) =>
  new Promise<{ names: string; serial: string } | undefined>(resolve => {
    const socket = connect({ port, host: '127.0.0.1', servername, rejectUnauthorized: false })
    socket.once('secureConnect', () => {
      const { subjectaltname, serialNumber } = socket.getPeerCertificate()
      resolve({ names: subjectaltname ?? '', serial: serialNumber })
      socket.destroy()
    })
    socket.once('error', () => resolve(undefined))
  })

it.skipIf(!existsSync(pebble))(
  'the certificate of a verified domain is requested, served and renewed',
  async () => {
    await using cleanup = new AsyncDisposableStack()
    const dir = await mkdtemp(join(tmpdir(), 'mote-acme-'))
    cleanup.defer(() => rm(dir, { recursive: true, force: true }))
    const dns = cleanup.use(await startTestDns())
    const httpPort = await freePort()
    const authority = await startAuthority(dir, dns.server, httpPort)
    cleanup.defer(() => authority.stop())
    const tls = { port: 0, certificates: '', redirect: false, hstsSeconds: 0 }
    const config = { dnsServers: [dns.server], acmeDirectory: authority.directory, acmeCa: authority.crt }
    const system = cleanup.use(await testSystem({ agents: 0, config, gateway: { port: httpPort, tls } }))
    const user = await system.user()
    await user.post('/v1/apps', { name: 'hello', git_url: '' })
    const add = async (name: string) => {
      const added = (await user.post('/v1/apps/hello/domains', { name })).body
      dns.txt.set(added.records[0].name, [added.records[0].value])
      await user.post(`/v1/apps/hello/domains/${name}/verify`)
    }
    const certificateOf = async (name: string) => {
      const all = (await user.get('/v1/apps/hello/domains')).body as {
        name: string
        certificate: { status: string; message: string }
      }[]
      return all.find(one => one.name === name)?.certificate
    }
    dns.local.add('shop.example.com')
    await add('shop.example.com')
    await until(async () => (await certificateOf('shop.example.com'))?.status === 'valid', {
      timeoutMs: 30_000,
      what: 'it has one',
    })
    const port = system.gateway.tlsPort ?? 0
    const first = await until(() => shownAt(port, 'shop.example.com'), {
      what: 'the gateway shows it',
    })
    expect(first.names).toBe('DNS:shop.example.com')
    const { db } = system.database
    const key = await db.one<{ key: string }>({
      name: 'test.key',
      text: `SELECT encode(private_key, 'escape') AS key FROM certificate`,
    })
    expect(key.key).not.toContain('PRIVATE KEY')

    // Makes the certificate due for renewal, because more than two thirds of its lifetime are over.
    await db.run({
      name: 'test.age',
      text: `UPDATE certificate SET not_before = now() - interval '80 days', not_after = now() + interval '10 days'`,
    })
    await db.rows({
      name: 'test.sweep',
      text: `UPDATE sweep_run SET pokes = pokes + 1 WHERE name = 'certificates' RETURNING pg_notify('sweep', name)`,
    })
    await until(async () => (await shownAt(port, 'shop.example.com'))?.serial !== first.serial, {
      timeoutMs: 30_000,
      everyMs: 50,
      what: 'the newer one is shown',
    })

    // This domain is verified but does not resolve to the gateway. The certificate authority refuses it, and the owner
    // gets the reason.
    await add('nowhere.example.com')
    const refused = await until(async () => (await certificateOf('nowhere.example.com'))?.message, {
      timeoutMs: 30_000,
      what: 'the reason is told',
    })
    expect(refused).toMatch(/nowhere\.example\.com|resolv|No valid IP/i)
    expect(await shownAt(port, 'nowhere.example.com')).toBeUndefined()
  },
  120_000,
)
