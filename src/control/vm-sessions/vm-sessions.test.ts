/**
 * Tests sessions from the client to real processes: the simulated host runs the guest's init as a process of the test
 * host.
 */
import { createHash, randomBytes } from 'node:crypto'
import { connect as connectTcp } from 'node:net'
import { mkdir, readdir, readFile, readlink, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { testDir } from '../../../test/support/agent/agent.ts'
import { cli } from '../../../test/support/cli.ts'
import { flakyProxy } from '../../../test/support/flaky-proxy.ts'
import type { TestSystem, TestUser } from '../../../test/support/system.ts'
import { type SystemWithGuest, systemWithGuest } from '../../../test/support/system-with-guest.ts'
import { until } from '../../../test/support/wait.ts'
import { connectSession, type SessionConnection, type SessionResult } from '../../client/index.ts'
import { sessionUpkeep } from './sweep.ts'
import { sessionSubprotocol } from '../../contract/session-stream.ts'

const skip = process.getuid?.() !== 0
let world: SystemWithGuest
let system: TestSystem
let ann: TestUser
let base: string

beforeAll(async () => {
  if (skip) return
  world = await systemWithGuest()
  ;({ system, ann } = world)
  base = `${world.deployment}/sessions`
}, 120_000)
afterAll(async () => world?.[Symbol.asyncDispose]())

/** Returns the project owner's client, for the current port of the control plane. */
const me = () => system.api.as(ann.token ?? '')

const digest = (data: Buffer) => createHash('sha256').update(data).digest('hex')

interface Session {
  readonly id: string
  readonly connection: SessionConnection
  readonly stdout: () => Buffer
  readonly stderr: () => Buffer
}

async function open(body: object): Promise<string> {
  const opened = await me().post(base, body)
  expect(opened.status, JSON.stringify(opened.body)).toBe(200)
  return opened.body.id
}

function connect(
  id: string,
  options: { readonly port?: number; readonly onOutput?: () => Promise<void> } = {},
): Session {
  const output: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] }
  const connection = connectSession({
    baseUrl: `http://127.0.0.1:${options.port ?? system.control.port}`,
    path: `${base}/${id}/attach`,
    token: () => ann.token,
    state: async (): Promise<SessionResult | undefined> => {
      const { body } = await me().get(`${base}/${id}`)
      return body.status === 'running' ? undefined : { reason: body.status, code: body.exit_code ?? body.signal }
    },
    onOutput: async (stream, data) => {
      output[stream].push(Buffer.from(data))
      await options.onOutput?.()
    },
  })
  return {
    id,
    connection,
    stdout: () => Buffer.concat(output.stdout),
    stderr: () => Buffer.concat(output.stderr),
  }
}

const run = async (body: object, options = {}) => connect(await open(body), options)
const auditOf = async (action: string, id: string) =>
  until(
    async () =>
      (await me().get('/v1/audit-logs?limit=100')).body.items.find(
        (row: { action: string; details: { session_id?: string } }) =>
          row.action === action && row.details.session_id === id,
      ),
    { what: `the audit row ${action}` },
  )

/** Runs the sweep with a time that is this many seconds in the future. */
const sweep = (seconds: number) =>
  sessionUpkeep({ db: system.database.db, bus: system.bus }).run({
    now: new Date(Date.now() + seconds * 1000),
    signal: new AbortController().signal,
  })

const addViewer = {
  name: 'test.addViewer',
  text: `INSERT INTO project_member (project_id, account_id, role)
         SELECT p.id, a.id, 'viewer' FROM project p, account a WHERE p.slug = $1 AND a.email = $2`,
}

/** Opens a WebSocket without the client library. */
async function rawSocket(id: string, token = ann.token) {
  const socket = new WebSocket(`ws://127.0.0.1:${system.control.port}${base}/${id}/attach`, [sessionSubprotocol], {
    headers: { authorization: `Bearer ${token}` },
  })
  const closed = new Promise<number>(resolve => socket.once('close', resolve))
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  return { socket, closed }
}

describe.skipIf(skip)('sessions of a VM (needs root)', { timeout: 60_000 }, () => {
  it('a program has standard input, output, error and an exit code; the audit log records its name, result and duration, but not its arguments', async () => {
    const session = await run({
      command: ['sh', '-c', 'cat; echo "$SECRET" >&2; exit 7'],
      env: { SECRET: 'shown' },
      stdin: true,
    })
    await session.connection.write(Buffer.from('hello\n'))
    session.connection.closeInput()
    expect(await session.connection.ended).toEqual({ reason: 'exited', code: 7 })
    expect([session.stdout().toString(), session.stderr().toString()]).toEqual(['hello\n', 'shown\n'])
    const opened = await auditOf('vm.session_opened', session.id)
    expect(opened.details).toMatchObject({ program: 'sh', tty: false })
    const ended = await auditOf('vm.session_ended', session.id)
    expect(ended.details).toMatchObject({ program: 'sh', outcome: 'exited', code: 7, seconds: expect.any(Number) })
    expect(ended.user_id).toBe(opened.user_id)
    expect(JSON.stringify([opened, ended])).not.toMatch(/SECRET|shown|hello/)
    expect((await me().get(`${base}/${session.id}`)).body).toMatchObject({ status: 'exited', exit_code: 7 })
  })

  it('input that the program does not read is discarded, and the exit code still arrives', async () => {
    for (const command of [
      ['sh', '-c', 'read -r line; exec 0<&-; sleep 0.2; exit 3'],
      ['sh', '-c', 'exit 3'],
    ]) {
      const session = await run({ command, stdin: true })
      void session.connection.write(randomBytes(1 << 20))
      session.connection.closeInput()
      expect(await session.connection.ended).toEqual({ reason: 'exited', code: 3 })
    }
  })

  it('closeInput of the client takes effect after all earlier writes, even if these were not awaited', async () => {
    const data = randomBytes(1 << 20)
    const session = await run({ command: ['cat'], stdin: true })
    void session.connection.write(data)
    session.connection.closeInput()
    expect(await session.connection.ended).toEqual({ reason: 'exited', code: 0 })
    expect(digest(session.stdout())).toBe(digest(data))
  })

  it('a terminal has the window size of the client, adopts a new size, and passes keys to the program', async () => {
    const script = `trap 'stty size' WINCH; stty size; while read -r line; do echo "got $line"; done`
    const session = await run({ command: ['bash', '-c', script], tty: { rows: 24, columns: 80 } })
    const printed = (text: string) => until(() => session.stdout().includes(text), { what: text })
    await printed('24 80')
    session.connection.resize(50, 132)
    await session.connection.write(Buffer.from('one\r'))
    await printed('got one')
    await printed('50 132')
    session.connection.signal('KILL')
    expect(await session.connection.ended).toEqual({ reason: 'signaled', code: 9 })
  })

  it('no byte is lost or repeated in either direction while connections break and the control plane restarts', async () => {
    const data = randomBytes(16 << 20)
    await using proxy = await flakyProxy(() => system.control.port)
    const session = await run({ command: ['cat'], stdin: true }, { port: proxy.port })
    const breaking = (async () => {
      for (let n = 1; n <= 6; n++) {
        await until(() => session.stdout().length > (n * data.length) / 8, { what: 'progress', timeoutMs: 30_000 })
        if (n === 3) await system.restartControl()
        else proxy.breakAll()
      }
    })()
    await session.connection.write(data)
    await breaking
    session.connection.closeInput()
    expect(await session.connection.ended).toEqual({ reason: 'exited', code: 0 })
    expect(session.stdout().length).toBe(data.length)
    expect(digest(session.stdout())).toBe(digest(data))
    expect(proxy.connections()).toBeGreaterThan(5)
  })

  it('output that is in transit when the program ends still reaches the client, even if several attempts to reconnect fail', async () => {
    let [refused, isBroken] = [0, false]
    await using proxy = await flakyProxy(() => (isBroken && refused++ < 5 ? 1 : system.control.port))
    const id = await open({ command: ['sh', '-c', 'head -c 50000 /dev/zero; sleep 0.3; head -c 50000 /dev/zero'] })
    const session = connect(id, {
      port: proxy.port,
      onOutput: async () => {
        if (isBroken) return
        // Break the connection after the first part of the output, so that all later output has to be sent again.
        isBroken = true
        proxy.breakAll()
        const isEnded = async () => {
          await sweep(120)
          return (await me().get(`${base}/${id}`)).body.status === 'exited'
        }
        await until(isEnded, { what: 'the end' })
      },
    })
    expect(await session.connection.ended).toEqual({ reason: 'exited', code: 0 })
    expect(session.stdout().length).toBe(100_000)
    expect(refused).toBeGreaterThan(5)
  })

  it('a program keeps running while no client is connected, and the next client gets the retained output', async () => {
    const session = await run({ command: ['sh', '-c', 'read -r a; echo "$a"; read -r b; echo "$b"'], stdin: true })
    await session.connection.write(Buffer.from('first\n'))
    await until(() => session.stdout().includes('first'), { what: 'output' })
    session.connection.detach()
    await expect(session.connection.ended).rejects.toThrow('Detached')
    const next = connect(session.id)
    await next.connection.write(Buffer.from('second\n'))
    expect(await next.connection.ended).toEqual({ reason: 'exited', code: 0 })
    expect(next.stdout().toString()).toBe('first\nsecond\n')
  })

  it('mote cp copies directory trees and files in both directions, and mote files lists and removes them', async () => {
    await using dir = await testDir()
    const at = (name: string) => join(dir.path, name)
    const env = { MOTE_URL: `http://127.0.0.1:${system.control.port}`, MOTE_TOKEN: ann.token ?? '' }
    const mote = (...args: string[]) => cli({ home: dir.path, env }).run(args)
    const content = randomBytes(700_000)
    await mkdir(at('site/empty'), { recursive: true })
    await writeFile(at('site/index.html'), content)
    await symlink('index.html', at('site/latest'))
    // The guest in this test shares the file system of the test host.
    expect(await mote('cp', at('site'), `web:${at('vm')}`)).toMatchObject({ code: 0 })
    expect((await readFile(at('vm/index.html'))).equals(content)).toBe(true)
    expect(await mote('cp', at('site/index.html'), `web:${at('vm')}/`)).toMatchObject({ code: 0 })
    expect(await mote('cp', `web:${at('vm')}`, at('back'))).toMatchObject({ code: 0 })
    expect((await readdir(at('back'))).sort()).toEqual(['empty', 'index.html', 'latest'])
    expect(await readlink(at('back/latest'))).toBe('index.html')
    expect((await readFile(at('back/index.html'))).equals(content)).toBe(true)
    expect(await mote('cp', `web:${at('vm/none')}`, at('x'))).toMatchObject({
      code: 1,
      err: expect.stringContaining('none: No such file'),
    })
    expect(await mote('files', 'rm', at('vm'), '--app', 'web')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/not empty/),
    })
    expect(await mote('files', 'ls', at('vm'), '--app', 'web')).toMatchObject({
      code: 0,
      out: expect.stringContaining('latest -> index.html'),
    })
    expect(await mote('files', 'rm', '-r', at('vm'), '--app', 'web')).toMatchObject({ code: 0 })
    expect(await readdir(dir.path)).not.toContain('vm')
    const audit = JSON.stringify((await me().get('/v1/audit-logs?limit=100')).body)
    expect(audit).toContain(`file:unpack ${dir.path}`)
  })

  it('mote files watch prints changes of a path until the path no longer exists', async () => {
    await using dir = await testDir()
    const at = (name: string) => join(dir.path, name)
    const env = { MOTE_URL: `http://127.0.0.1:${system.control.port}`, MOTE_TOKEN: ann.token ?? '' }
    await mkdir(at('tree/sub'), { recursive: true })
    const onOutput = (out: string) => {
      if (!out.includes('created')) void writeFile(at('tree/sub/two\nlines'), 'x')
      else void rename(at('tree'), at('moved')).catch(() => undefined)
    }
    const args = ['files', 'watch', '-r', at('tree'), '--app', 'web', '--json']
    const { code, out, err } = await cli({ home: dir.path, env }).run(args, { onOutput })
    expect([code, err]).toEqual([0, ''])
    const changes = out
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(changes[0]).toEqual({ event: 'watching', directories: 2 })
    expect(changes[1]).toEqual({ event: 'created', path: at('tree/sub/two\nlines') })
    expect(changes.at(-1)).toEqual({ event: 'removed', path: at('tree') })
    const plain = await cli({ home: dir.path, env }).run(['files', 'watch', at('moved'), '--app', 'web'], {
      interruptAt: /Watching 1 directory/,
    })
    expect(plain.code).toBe(130)
    const watches = async () =>
      (await me().get(`${base}?status=running`)).body.filter(({ program }: { program: string }) =>
        program.startsWith('file:watch'),
      )
    await until(async () => (await watches()).length === 0, { what: 'the end of the session' })
  })

  it('a new client of a session replaces the attached client', async () => {
    const id = await open({ command: ['cat'], stdin: true })
    const first = connect(id)
    await first.connection.write(Buffer.from('one'))
    await until(() => first.stdout().length === 3, { what: 'the echo' })
    const second = connect(id)
    await second.connection.write(Buffer.from('two'))
    await until(() => second.stdout().toString() === 'onetwo', { what: 'both' })
    await expect(first.connection.ended).rejects.toThrow('Another client')
    second.connection.closeInput()
    expect(await second.connection.ended).toEqual({ reason: 'exited', code: 0 })
  })

  it('a client that does not read output blocks the program, and the output does not accumulate in memory', async () => {
    const id = await open({ command: ['sh', '-c', 'head -c 20000000 /dev/zero; echo done >&2'] })
    await using proxy = await flakyProxy(() => system.control.port)
    const blocked = Promise.withResolvers<void>()
    const session = connect(id, { port: proxy.port, onOutput: () => blocked.promise })
    await until(() => session.stdout().length > 0, { what: 'the first output' })
    const before = proxy.passedBytes()
    await new Promise(resolve => setImmediate(resolve))
    // At most one window of the stream (1 MiB) and the socket buffers may be in transit.
    expect(proxy.passedBytes()).toBeLessThan(4 << 20)
    expect(before).toBeGreaterThan(0)
    blocked.resolve()
    expect(await session.connection.ended).toEqual({ reason: 'exited', code: 0 })
    expect([session.stdout().length, session.stderr().toString()]).toEqual([20_000_000, 'done\n'])
  })

  it('the sweep records the end of a session that has no client', async () => {
    const id = await open({ command: ['sh', '-c', 'exit 3'] })
    await until(
      async () => {
        await sweep(120)
        return (await me().get(`${base}/${id}`)).body.status !== 'running'
      },
      { what: 'the end' },
    )
    const ended = await auditOf('vm.session_ended', id)
    expect(ended.details).toMatchObject({ outcome: 'exited', code: 3 })
  })

  it('the sweep ends a session that had no client for longer than its idle time-out', async () => {
    const id = await open({ command: ['sleep', '1000'], idle_timeout_seconds: 60 })
    const never = await open({ command: ['sleep', '1001'], idle_timeout_seconds: 0 })
    await until(
      async () => {
        await sweep(90)
        return (await me().get(`${base}/${id}`)).body.status !== 'running'
      },
      { what: 'the end' },
    )
    const ended = await auditOf('vm.session_ended', id)
    expect(ended.details).toMatchObject({ outcome: 'signaled', code: 1 })
    expect((await me().get(`${base}/${never}`)).body).toMatchObject({ status: 'running', idle_timeout_seconds: null })
    expect((await me().delete(`${base}/${never}`)).status).toBe(200)
    expect((await me().get(`${base}/${never}`)).body).toMatchObject({ status: 'signaled', signal: 9 })
  })

  it('repeated requests with the same Idempotency-Key open only one session', async () => {
    const key = { 'idempotency-key': randomBytes(8).toString('hex') }
    const body = { command: ['sleep', '1000'] }
    const [one, two] = [await me().post(base, body, key), await me().post(base, body, key)]
    expect([two.status, two.body.id]).toEqual([200, one.body.id])
    expect((await me().delete(`${base}/${one.body.id}`)).status).toBe(200)
  })

  it('a request to open a session that is refused states the reason', async () => {
    const refused = async (body: object) => (await me().post(base, { command: ['true'], ...body })).body
    expect(await refused({ user: 'no-such-user' })).toMatchObject({ code: 'invalid_state', error: /no such user/ })
    expect(await refused({ command: undefined })).toMatchObject({ code: 'invalid_request', error: /command/ })
    expect(await refused({ port: 80 })).toMatchObject({ code: 'invalid_request', error: /port/ })
    expect(await refused({ command: undefined, port: 0 })).toMatchObject({ code: 'invalid_request' })
    expect(await refused({ command: [] })).toMatchObject({ code: 'invalid_request' })
    expect(await refused({ command: ['a\0b'] })).toMatchObject({ code: 'invalid_request' })
    expect(await refused({ vm_id: '0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10' })).toMatchObject({ code: 'invalid_request' })
    const plain = await me().get(`${base}/${await open({ command: ['true'] })}/attach`)
    expect(plain).toMatchObject({ status: 400, body: { error: expect.stringContaining(sessionSubprotocol) } })
  })

  it('another tenant, a viewer, and tokens without the scope `exec` cannot attach to a session', async () => {
    const id = await open({ command: ['sleep', '1000'] })
    const bob = await system.user()
    const viewer = await system.user()
    await system.database.db.run(addViewer, [ann.project, viewer.email])
    const tokenWith = async (scopes: readonly string[]) =>
      (await me().post('/v1/auth/tokens', { name: scopes.join(), scopes })).body.token
    const status = (token: string, project: string) =>
      new Promise<number>((resolve, reject) => {
        const url = `ws://127.0.0.1:${system.control.port}${base}/${id}/attach?project=${project}`
        const socket = new WebSocket(url, [sessionSubprotocol, `bearer.${token}`])
        socket.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0))
        socket.once('open', () => {
          socket.terminate()
          resolve(101)
        })
        socket.once('error', reject)
      })
    expect(await status(bob.token ?? '', bob.project)).toBe(404)
    expect(await status(bob.token ?? '', ann.project)).toBe(404)
    expect(await status(viewer.token ?? '', ann.project)).toBe(403)
    expect(await status(await tokenWith(['read']), ann.project)).toBe(403)
    expect(await status(await tokenWith(['deploy']), ann.project)).toBe(403)
    expect(await status(await tokenWith(['exec']), ann.project)).toBe(101)
    expect(await status('not-a-token', ann.project)).toBe(401)
    await me().delete(`${base}/${id}`)
  })

  it('an open WebSocket is closed when its token is revoked', async () => {
    const id = await open({ command: ['sleep', '1000'] })
    const made = (await me().post('/v1/auth/tokens', { name: 'short', scopes: ['exec'] })).body
    const { closed } = await rawSocket(id, made.token)
    expect((await me().delete(`/v1/auth/tokens/${made.id}`)).status).toBe(200)
    expect(await closed).toBe(1012)
    await me().delete(`${base}/${id}`)
  })

  it.each<[string, (socket: WebSocket) => void]>([
    ['text that is not JSON', socket => socket.send('{')],
    ['an unknown type', socket => socket.send('{"type":"eject"}')],
    ['a long text', socket => socket.send(`"${'x'.repeat(50_000)}"`)],
    ['deep brackets', socket => socket.send('['.repeat(4000))],
    ['an acknowledgment of the future', socket => socket.send('{"type":"ack","stdout":5,"stderr":0}')],
    ['an unknown signal', socket => socket.send('{"type":"signal","signal":"SEGV"}')],
    ['an empty binary message', socket => socket.send(Buffer.alloc(0))],
    ['output instead of input', socket => socket.send(Buffer.from('010000000000000000ff', 'hex'))],
    ['input after a gap', socket => socket.send(Buffer.from('00000000000000000561', 'hex'))],
    ['input at a position that is no safe integer', socket => socket.send(Buffer.from('00ffffffffffffffff61', 'hex'))],
    [
      'more input than the window',
      socket => {
        const header = (at: number) => Buffer.concat([Buffer.from([0, 0, 0, 0, 0]), uint32(at)])
        for (let at = 0; at < 4_200_000; at += 60_000) socket.send(Buffer.concat([header(at), Buffer.alloc(60_000)]))
      },
    ],
    [
      'many signals',
      socket => {
        for (let n = 0; n < 1000; n++) socket.send('{"type":"signal","signal":"CONT"}')
      },
    ],
  ])('a client that sends %s is disconnected, and the program keeps running', async (_, send) => {
    const id = await open({ command: ['sleep', '1000'], stdin: true })
    const { socket, closed } = await rawSocket(id)
    send(socket)
    expect(await closed).toBe(1008)
    expect((await me().get(`${base}/${id}`)).body.status).toBe('running')
    expect((await me().delete(`${base}/${id}`)).status).toBe(200)
  })

  it('invalid WebSocket handshakes get an HTTP error, and the server keeps running', async () => {
    const id = await open({ command: ['sleep', '1000'] })
    const attach = `${base}/${id}/attach`
    const usual = {
      upgrade: 'websocket',
      connection: 'Upgrade',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'sec-websocket-protocol': sessionSubprotocol,
      authorization: `Bearer ${ann.token}`,
    }
    const ask = async (path: string, change: Readonly<Record<string, string>> = {}, method = 'GET') => {
      const socket = connectTcp(system.control.port, '127.0.0.1')
      const head = Object.entries({ host: 'localhost', ...usual, ...change }).map(
        ([name, value]) => `${name}: ${value}`,
      )
      socket.write(`${method} ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n`)
      const text = await new Promise<string>(resolve => socket.once('data', data => resolve(data.toString())))
      socket.destroy()
      return Number(text.split(' ')[1])
    }
    expect(await ask(attach)).toBe(101)
    expect(await ask('/v1/nothing')).toBe(404)
    expect(await ask(`${base}/${id}`)).toBe(200)
    expect(await ask(attach, { authorization: 'Bearer x' })).toBe(401)
    expect(await ask(attach, { 'sec-websocket-key': 'short' })).toBe(400)
    expect(await ask(attach, { 'sec-websocket-version': '7' })).toBe(400)
    expect(await ask(attach, { 'sec-websocket-protocol': 'mote.session.v9' })).toBe(400)
    expect(await ask(attach, { upgrade: 'h2c' })).toBe(400)
    expect(await ask(attach, { 'x-project': 'none' })).toBe(404)
    expect(await ask(attach, {}, 'POST')).toBe(405)
    expect((await me().delete(`${base}/${id}`)).status).toBe(200)
  })

  it('a message above the size limit and invalid frames close the WebSocket', async () => {
    const id = await open({ command: ['sleep', '1000'], stdin: true })
    const large = await rawSocket(id)
    large.socket.send(Buffer.alloc(100_000))
    expect(await large.closed).toBe(1009)
    const invalid = await rawSocket(id)
    Reflect.get(invalid.socket, '_socket').write(randomBytes(200))
    expect([1002, 1006, 1007]).toContain(await invalid.closed)
    await me().delete(`${base}/${id}`)
  })
})

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
