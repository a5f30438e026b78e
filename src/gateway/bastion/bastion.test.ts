/**
 * Tests the bastion with a real SSH client and server, and a TCP echo server as the database. The test plays the part
 * of control.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import ssh2 from 'ssh2'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { createMemoryBus } from '../../bus/memory.ts'
import { type TunnelLogin, type TunnelOpen, gatewaySubjects } from '../../contract/gateway.ts'
import { run } from '../../lib/exec.ts'
import { type Bastion, startBastion } from './bastion.ts'
import { countFailures } from './failures.ts'

/** Ids of databases. */
const mine = '0197f0a0-0000-7000-8000-000000000001'
const other = '0197f0a0-0000-7000-8000-000000000002'
const bus = createMemoryBus()
const logins: TunnelLogin[] = []
let bastion: Bastion
let echo: Server
let dir: string
let key: string
let publicKey: string
let opens = 0
/** What control currently replies about the database. */
let database: 'here' | 'old login' | keyof typeof elsewhere = 'here'
const elsewhere = {
  moved: { endpoint: { host: '127.0.0.1', port: 1 }, reason: '', mayOpen: true },
  gone: { endpoint: null, reason: 'the database is not running', mayOpen: true },
  forbidden: { endpoint: null, reason: 'sign in again', mayOpen: false },
} as const

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-bastion-'))
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(dir, 'id')])
  key = await readFile(join(dir, 'id'), 'utf8')
  publicKey = (await readFile(join(dir, 'id.pub'), 'utf8')).split(' ')[1] ?? ''
  echo = createServer(socket => socket.pipe(socket))
  await new Promise<void>(resolve => echo.listen(0, '127.0.0.1', resolve))
  const endpoint = { host: '127.0.0.1', port: (echo.address() as AddressInfo).port }
  await bus.serve(gatewaySubjects.tunnelLogin, data => {
    const login = data as TunnelLogin
    logins.push(login)
    const { credential } = login
    const known = credential.kind === 'token' ? credential.token === 'good' : credential.publicKey === publicKey
    return { grant: known ? `grant of ${login.user}` : null }
  })
  await bus.serve(gatewaySubjects.tunnelOpen, data => {
    const { grant, host, port } = data as TunnelOpen
    opens++
    if (grant !== `grant of ${mine}` || host !== 'shop.acme.db.internal' || port !== 5432)
      return { endpoint: null, reason: 'not yours', mayOpen: false }
    if (database === 'old login') return { endpoint: null, reason: 'sign in again', mayOpen: true, mayStay: true }
    return database === 'here' ? { endpoint, reason: '', mayOpen: true } : elsewhere[database]
  })
  bastion = await startBastion(
    { host: '127.0.0.1', port: 0, hostKeyFile: join(dir, 'keys', 'host'), pollEveryMs: 20 },
    { bus, log: pino({ level: 'silent' }) },
  )
})
afterAll(async () => {
  await bastion.stop()
  echo.close()
  await bus.close()
  await rm(dir, { recursive: true, force: true })
})

const connectAs = (
  username: string,
  credential: Pick<ssh2.ConnectConfig, 'password' | 'privateKey'>,
  from = '127.0.0.1',
) =>
  new Promise<ssh2.Client>((resolve, reject) => {
    const client = new ssh2.Client()
    client.on('ready', () => resolve(client)).on('error', reject)
    client.on('close', () => reject(new Error('hung up')))
    client.connect({ host: '127.0.0.1', port: bastion.port, username, localAddress: from, ...credential })
  })
const forward = (client: ssh2.Client, host: string, port: number) =>
  new Promise<ssh2.ClientChannel>((resolve, reject) => {
    client.forwardOut('127.0.0.1', 1, host, port, (error, channel) => (error ? reject(error) : resolve(channel)))
  })
const answerOf = async (channel: ssh2.ClientChannel, sent: string) => {
  let text = ''
  channel.on('data', (data: Buffer) => (text += data.toString()))
  channel.write(sent)
  await until(() => text === sent, { what: `the echo of ${sent}` })
}
const cannot = (act: (done: (error: Error | undefined) => void) => unknown) =>
  new Promise<boolean>(resolve => act(error => resolve(error !== undefined)))

describe('the bastion', () => {
  it.each([
    ['a token', () => ({ password: 'good' })],
    ['a key', () => ({ privateKey: key })],
  ])('opens a tunnel for a login with %s', async (_, credential) => {
    const client = await connectAs(mine, credential())
    const channel = await forward(client, 'shop.acme.db.internal', 5432)
    await answerOf(channel, 'hello')
    client.end()
  })

  it.each(Object.keys(elsewhere) as (keyof typeof elsewhere)[])(
    'ends a tunnel to a database that is %s',
    async fate => {
      const client = await connectAs(mine, { password: 'good' })
      const channel = await forward(client, 'shop.acme.db.internal', 5432)
      await answerOf(channel, 'hello')
      const ended = new Promise(resolve => channel.on('close', resolve))
      database = fate
      await ended
      database = 'here'
      await answerOf(await forward(client, 'shop.acme.db.internal', 5432), 'hello again')
      client.end()
    },
  )

  it('keeps open tunnels when their login has expired, and checks all tunnels to one database with one request', async () => {
    const client = await connectAs(mine, { password: 'good' })
    const channels = [
      await forward(client, 'shop.acme.db.internal', 5432),
      await forward(client, 'shop.acme.db.internal', 5432),
    ]
    database = 'old login'
    const before = opens
    await until(() => opens >= before + 5, { what: 'the tunnel is checked' })
    await expect(forward(client, 'shop.acme.db.internal', 5432)).rejects.toThrow('open')
    for (const channel of channels) await answerOf(channel, 'still here')
    database = 'here'
    client.end()
  })

  it('keeps a tunnel to a database that is briefly unavailable', async () => {
    const client = await connectAs(mine, { password: 'good' })
    const channel = await forward(client, 'shop.acme.db.internal', 5432)
    for (const sent of ['one', 'two', 'three']) {
      const before = opens
      database = 'gone'
      await until(() => opens > before, { what: 'the tunnel is checked' })
      database = 'here'
      const after = opens
      await until(() => opens > after, { what: 'the tunnel is checked again' })
      await answerOf(channel, sent)
    }
    client.end()
  })

  it('accepts a key only with a valid signature', () => {
    const asked = logins.flatMap(({ credential }) => (credential.kind === 'key' ? [credential.proven] : []))
    expect(asked).toEqual([false, true])
  })

  it('refuses tunnels to other destinations', async () => {
    const client = await connectAs(mine, { password: 'good' })
    await expect(forward(client, '127.0.0.1', 22)).rejects.toThrow('open')
    await expect(forward(client, 'shop.acme.db.internal', 22)).rejects.toThrow('open')
    const stranger = await connectAs(other, { password: 'good' })
    await expect(forward(stranger, 'shop.acme.db.internal', 5432)).rejects.toThrow('open')
    client.end()
    stranger.end()
  })

  it('refuses shells, commands, file transfers and remote forwarding', async () => {
    const client = await connectAs(mine, { password: 'good' })
    expect(await cannot(done => client.shell(error => done(error)))).toBe(true)
    expect(await cannot(done => client.exec('id', error => done(error)))).toBe(true)
    expect(await cannot(done => client.sftp(error => done(error)))).toBe(true)
    expect(await cannot(done => client.forwardIn('127.0.0.1', 0, error => done(error)))).toBe(true)
    client.end()
  })

  it('keeps its host key across restarts', async () => {
    const before = await readFile(join(dir, 'keys', 'host'), 'utf8')
    const again = await startBastion(
      { host: '127.0.0.1', port: 0, hostKeyFile: join(dir, 'keys', 'host') },
      { bus, log: pino({ level: 'silent' }) },
    )
    await again.stop()
    expect(await readFile(join(dir, 'keys', 'host'), 'utf8')).toBe(before)
  })

  it('disconnects a client address with too many failed logins, but no other address', async () => {
    const guesser = '127.0.0.9'
    for (let n = 0; n < 10; n++) await expect(connectAs(mine, { password: `bad ${n}` }, guesser)).rejects.toThrow()
    const before = logins.length
    await expect(connectAs(mine, { password: 'good' }, guesser)).rejects.toThrow()
    expect(logins.length).toBe(before)
    const client = await connectAs(mine, { password: 'good' })
    client.end()
  })
})

it('failed logins are forgotten after a minute', () => {
  let nowMs = 0
  const failures = countFailures(2, () => nowMs)
  failures.note('a')
  failures.note('a')
  expect(failures.mayTry('a')).toBe(false)
  expect(failures.mayTry('b')).toBe(true)
  nowMs = 60_000
  expect(failures.mayTry('a')).toBe(true)
})
