/**
 * Tests the OpenSSH clients with a real bastion and real programs: the simulated host runs the guest's init as a
 * process.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import ssh2 from 'ssh2'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { cli } from '../../../test/support/cli.ts'
import { compiledInit, type TestInit } from '../../../test/support/agent/guest-init.ts'
import { freePort } from '../../../test/support/free-port.ts'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { createFakeHost } from '../../agent/hypervisor/fake/host.ts'
import { shellSubjects } from '../../contract/shell.ts'
import { type Bastion, startBastion } from '../../gateway/bastion/bastion.ts'
import { run } from '../../lib/exec.ts'

const skip = process.getuid?.() !== 0
let system: TestSystem
let init: Awaited<ReturnType<typeof compiledInit>>
let guest: TestInit
let ann: TestUser
let dir: Awaited<ReturnType<typeof testDir>>
let bastion: Bastion
const at = (name: string) => join(dir.path, name)

beforeAll(async () => {
  if (skip) return
  dir = await testDir()
  init = await compiledInit()
  guest = await init.start()
  const { sessions } = await guest.connect()
  const fake = createFakeHost({ imageMs: 0, bootMs: 0, healthyMs: 0, stopMs: 0, logEveryMs: 0 })
  fake.sessions = () => sessions
  system = await testSystem({ agents: 0 })
  await system.addAgent({}, fake)
  ann = await system.user()
  await deployed('web')
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at('id')])
  const key = await readFile(at('id.pub'), 'utf8')
  expect((await ann.post('/v1/auth/ssh-keys', { name: 'laptop', public_key: key.trim() })).status).toBe(200)
  bastion = await startBastion(
    { host: '127.0.0.1', port: 0, hostKeyFile: at('host-key') },
    { bus: system.bus, log: pino({ level: 'silent' }) },
  )
}, 120_000)
afterAll(async () => {
  await bastion?.stop()
  await system?.[Symbol.asyncDispose]()
  await guest?.[Symbol.asyncDispose]()
  await init?.[Symbol.asyncDispose]()
  await dir?.[Symbol.asyncDispose]()
})

async function deployed(name: string): Promise<void> {
  const image = 'docker.io/library/nginx:1.27'
  await until(async () => (await ann.post('/v1/deploy', { app_name: name, image })).status === 200, { what: 'a host' })
  const isRunning = async () =>
    (await ann.get(`/v1/apps/${name}/deployments`)).body.some((d: { status: string }) => d.status === 'running')
  await until(isRunning, { what: 'the deployment to run' })
}

const options = () => [
  ...['-F', 'none', '-i', at('id'), '-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes'],
  ...['-o', 'StrictHostKeyChecking=no', '-o', `UserKnownHostsFile=${at('known')}`, '-o', 'LogLevel=ERROR'],
]

/** Runs an OpenSSH client program. */
async function openssh(program: 'ssh' | 'scp' | 'sftp', args: readonly string[], input: string | Buffer = '') {
  const port = [program === 'ssh' ? '-p' : '-P', `${bastion.port}`]
  const child = spawn(program, [...options(), ...port, ...args], {
    stdio: 'pipe',
    env: { PATH: process.env.PATH ?? '', HOME: dir.path },
  })
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { out, err, code: code as number | null }
}
const ssh = (args: readonly string[], input?: string | Buffer) => openssh('ssh', ['web@127.0.0.1', ...args], input)

const connectAs = (username: string, credential: Pick<ssh2.ConnectConfig, 'password' | 'privateKey'>) =>
  new Promise<ssh2.Client>((resolve, reject) => {
    const client = new ssh2.Client()
    client.on('ready', () => resolve(client)).on('error', reject)
    client.connect({ host: '127.0.0.1', port: bastion.port, username, strictVendor: false, ...credential })
  })
const token = async (by: TestUser, more: object = {}): Promise<string> =>
  (await by.post('/v1/auth/tokens', { name: 'ssh', ...more })).body.token

describe.skipIf(skip)('OpenSSH to an app (needs root)', { timeout: 60_000 }, () => {
  it('ssh runs commands with standard input, standard output and error, and the exit code or signal', async () => {
    expect(await ssh(['cat; echo error >&2; exit 7'], 'input')).toEqual({ out: 'input', err: 'error\n', code: 7 })
    expect(await ssh(['kill -TERM $$'])).toMatchObject({ out: '', err: '', code: 255 })
    // The SSH protocol has no name for SIGBUS, so the signal is reported as an exit code.
    expect(await ssh(['kill -BUS $$'])).toMatchObject({ out: '', err: '', code: 128 + 7 })
    const binary = randomBytes(1_500_000)
    expect((await ssh(['sha256sum'], binary)).out).toBe((await ssh(['sha256sum'], binary)).out)
    expect((await ssh(['head -c 3000000 /dev/zero | tr "\\0" x'])).out).toBe('x'.repeat(3_000_000))
  })

  it('the API returns the SSH address and host key, and `mote ssh --config` prints them in the format of ssh_config', async () => {
    const isKnown = async () => (await ann.get('/v1/apps/web/ssh')).body.ssh_host_keys.length > 0
    await until(isKnown, { what: 'the host key' })
    const { body } = await ann.get('/v1/apps/web/ssh')
    expect(body).toMatchObject({ ssh_host: 'localhost', ssh_port: 7022, ssh_user: `web.${ann.project}` })
    expect(body.ssh_command).toContain(`${body.ssh_user}@localhost`)
    const env = { MOTE_URL: `http://127.0.0.1:${system.control.port}`, MOTE_TOKEN: ann.token ?? '' }
    const mote = (...args: string[]) => cli({ home: dir.path, env }).run(args)
    const { out, code } = await mote('ssh', '--config', '--app', 'web')
    expect([code, out]).toEqual([0, expect.stringContaining('Host mote-web\n')])
    await writeFile(at('config'), out.replace('7022', `${bastion.port}`).replace('localhost', '127.0.0.1'))
    // The connection succeeds only if the host key in the printed configuration is the bastion's.
    const args = ['-F', at('config'), '-i', at('id'), '-o', 'BatchMode=yes', 'mote-web', 'echo hello']
    expect(await run('ssh', args)).toBe('hello\n')
    expect((await mote('ssh-keys', 'list')).out).toContain('laptop')
  })

  it('the audit log records who ran a program and when it ended, and the SSH key shows when it was last used', async () => {
    await ssh(['echo secret-argument'])
    const { items } = (await ann.get('/v1/audit-logs?action=vm.session_opened')).body
    expect(items[0].details).toMatchObject({ program: 'ssh: sh', by: expect.stringMatching(/^ssh key /) })
    expect(JSON.stringify(items)).not.toContain('secret-argument')
    await until(async () => (await ann.get('/v1/audit-logs?action=vm.session_ended')).body.items.length > 0, {
      what: 'the end of the session',
    })
    expect((await ann.get('/v1/auth/ssh-keys')).body[0].last_used_at).not.toBeNull()
  })

  it('a terminal has the TERM and window size of the client, adopts a new window size, and passes Ctrl-C to the program', async () => {
    const client = await connectAs('web', { privateKey: await readFile(at('id'), 'utf8') })
    const window = { rows: 30, cols: 100, term: 'xterm-256color' }
    const shell = await new Promise<ssh2.ClientChannel>((resolve, reject) =>
      client.shell(window, (error, channel) => (error ? reject(error) : resolve(channel))),
    )
    let output = ''
    shell.on('data', (data: Buffer) => (output += data.toString()))
    const printed = (wanted: string) => until(() => output.includes(wanted), { what: `${wanted} in ${output}` })
    shell.write('stty size; echo "type $TERM"\n')
    await printed('30 100')
    await printed('type xterm-256color')
    shell.setWindow(50, 132, 0, 0)
    await until(
      async () => {
        shell.write('stty size\n')
        return output.includes('50 132')
      },
      { what: 'the new size', everyMs: 200 },
    )
    shell.write('echo begun-$((40 + 2)); sleep 1000\n')
    await printed('begun-42')
    shell.write('\x03')
    shell.write('echo after-$((40 + 2))\n')
    await printed('after-42')
    const code = once(shell, 'exit')
    shell.write('exit 5\n')
    expect((await code)[0]).toBe(5)
    client.end()
  })

  it('scp and sftp copy directory trees in both directions, and preserve modes, links and content', async () => {
    const content = randomBytes(5_000_000)
    await mkdir(at('site/empty'), { recursive: true })
    await writeFile(at('site/data'), content, { mode: 0o750 })
    await symlink('data', at('site/latest'))
    // The guest in this test shares the file system of the test host.
    const up = await openssh('scp', ['-rp', at('site'), `web@127.0.0.1:${at('vm')}`])
    expect(up).toEqual({ out: '', err: '', code: 0 })
    expect((await readFile(at('vm/data'))).equals(content)).toBe(true)
    expect((await stat(at('vm/data'))).mode & 0o777).toBe(0o750)
    expect(await openssh('scp', ['-r', `web@127.0.0.1:${at('vm')}`, at('back')])).toMatchObject({ err: '', code: 0 })
    expect((await readFile(at('back/data'))).equals(content)).toBe(true)
    expect((await openssh('scp', [`web@127.0.0.1:${at('none')}`, at('x')])).err).toContain('No such file')
    const commands = [
      `cd ${at('vm')}`,
      'mkdir "with space"',
      'rename data "with space/moved"',
      'symlink "with space/moved" link',
      'chmod 600 "with space/moved"',
      'rm latest',
      'rmdir empty',
      'ls -la',
      'df',
      'pwd',
    ]
    const session = await openssh('sftp', ['-b', '-', 'web@127.0.0.1'], `${commands.join('\n')}\n`)
    expect(session).toMatchObject({ err: '', code: 0, out: expect.stringContaining(`directory: ${at('vm')}`) })
    expect((await readdir(at('vm'))).sort()).toEqual(['link', 'with space'])
    expect(await readlink(at('vm/link'))).toBe('with space/moved')
    expect((await stat(at('vm/link'))).mode & 0o777).toBe(0o600)
    expect(session.out).toMatch(/drwx.* with space/)
  })

  it('an invalid SFTP packet gets an error or ends the transfer, and the next transfer works', async () => {
    const client = await connectAs('web', { privateKey: await readFile(at('id'), 'utf8') })
    const packet = (...parts: Buffer[]) => {
      const body = Buffer.concat(parts)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(body.length)
      return Buffer.concat([length, body])
    }
    const types = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 200, 77]
    const wrong = [Buffer.alloc(0), Buffer.alloc(3), Buffer.alloc(4, 255), Buffer.from([0, 0, 0, 4, 0, 0, 0, 9])]
    const sent = types.flatMap(type => wrong.map(rest => packet(Buffer.from([type, 0, 0, 0, 1]), rest)))
    const answers = await subsystem(client, Buffer.concat(sent))
    let count = 0
    for (let from = 0; from < answers.length; from += 4 + answers.readUInt32BE(from)) {
      count++
      expect(answers[from + 4]).toBeGreaterThan(100)
    }
    expect(count).toBe(sent.length)
    expect(await subsystem(client, Buffer.from([255, 255, 255, 255, 1]))).toHaveLength(0)
    expect((await subsystem(client, packet(Buffer.from([1, 0, 0, 0, 3]))))[4]).toBe(2)
    client.end()
  })

  it('ssh -L and -D reach ports of the VM, but no other host', async () => {
    const server = createServer((_request, response) => response.end('from the VM'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const client = await connectAs('web', { privateKey: await readFile(at('id'), 'utf8') })
    const forward = (host: string, to: number) =>
      new Promise<ssh2.ClientChannel>((resolve, reject) =>
        client.forwardOut('127.0.0.1', 1, host, to, (error, channel) => (error ? reject(error) : resolve(channel))),
      )
    const channel = await forward('localhost', port)
    channel.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    expect(await text(channel)).toContain('from the VM')
    await expect(forward('10.0.0.1', 22)).rejects.toThrow('open')
    client.end()
    server.close()
  })

  it('ssh -L reaches Unix sockets in the VM', async () => {
    const server = createServer((_request, response) => response.end('from a socket'))
    await once(server.listen(at('a b.sock')), 'listening')
    const client = await connectAs('web', { privateKey: await readFile(at('id'), 'utf8') })
    const forward = (path: string) =>
      new Promise<ssh2.ClientChannel>((resolve, reject) =>
        client.openssh_forwardOutStreamLocal(path, (error, channel) => (error ? reject(error) : resolve(channel))),
      )
    const channel = await forward(at('a b.sock'))
    channel.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    expect(await text(channel)).toContain('from a socket')
    expect(await text(await forward(at('no.sock')))).toBe('')
    for (const path of ['relative.sock', '', `/${'x'.repeat(107)}`, '/a\u0000b'])
      await expect(forward(path)).rejects.toThrow('open')
    client.end()
    server.close()
  })

  it('a program gets SIGHUP when its client disconnects', async () => {
    const client = await connectAs('web', { privateKey: await readFile(at('id'), 'utf8') })
    const file = at('hung-up')
    await new Promise<ssh2.ClientChannel>((resolve, reject) =>
      client.exec(`trap 'touch ${file}; exit' HUP; echo ready; while :; do sleep 0.05; done`, (error, channel) => {
        if (error) reject(error)
        else channel.on('data', () => resolve(channel))
      }),
    )
    client.destroy()
    await until(async () => (await readdir(dir.path)).includes('hung-up'), { what: 'SIGHUP' })
  })

  it('tokens with the scope `exec` and registered SSH keys can log in; other credentials cannot', async () => {
    const works = async (user: string, password: string) => {
      const client = await connectAs(user, { password })
      client.end()
    }
    const slug = ann.project
    await works('web', await token(ann, { scopes: ['exec'] }))
    await works(`web.${slug}`, await token(ann))
    const refused = (user: string, password: string) => expect(works(user, password)).rejects.toThrow('authentication')
    await refused('web', await token(ann, { scopes: ['deploy'] }))
    await refused('web.other', await token(ann))
    await refused('nothing', await token(ann))
    await refused("web' OR 1=1 --", await token(ann))
    const bob = await system.user()
    await refused('web', await token(bob))
    await refused(`web.${slug}`, await token(bob))
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at('other')])
    const privateKey = await readFile(at('other'), 'utf8')
    await expect(connectAs('web', { privateKey })).rejects.toThrow('authentication')
  })

  it('a removed SSH key cannot open sessions, not even over a connection that is already open', async () => {
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at('brief')])
    const public_key = (await readFile(at('brief.pub'), 'utf8')).trim()
    const { id } = (await ann.post('/v1/auth/ssh-keys', { name: 'brief', public_key })).body
    const client = await connectAs('web', { privateKey: await readFile(at('brief'), 'utf8') })
    await ann.delete(`/v1/auth/ssh-keys/${id}`)
    const channel = await new Promise<ssh2.ClientChannel>((resolve, reject) =>
      client.exec('echo hello', (error, opened) => (error ? reject(error) : resolve(opened))),
    )
    const err = text(channel.stderr)
    expect(await text(channel)).toBe('')
    expect(await err).toContain('Log in again')
    client.end()
  })

  it('vim, top and python3 work in an SSH terminal, as far as they are installed', async () => {
    const client = await connectAs(`web.${ann.project}`, { privateKey: await readFile(at('id'), 'utf8') })
    const terminal = async (command: string, steps: readonly (readonly [RegExp, string])[]) => {
      const channel = await new Promise<ssh2.ClientChannel>((resolve, reject) => {
        const pty = { term: 'xterm', rows: 24, cols: 80 }
        client.exec(command, { pty }, (error, opened) => (error ? reject(error) : resolve(opened)))
      })
      let output = ''
      channel.on('data', (data: Buffer) => (output += data.toString()))
      const ended = once(channel, 'exit')
      for (const [wanted, typed] of steps) {
        await until(() => wanted.test(output), { what: `${wanted} of ${command} in ${output}`, timeoutMs: 30_000 })
        output = ''
        channel.write(typed)
      }
      return (await ended)[0] as number | null
    }
    const file = at('edited')
    const cases = {
      vim: [`vim -N -u NONE -n ${file}`, [/~/, 'iwritten in vim'], [/written in vim/, '\x1b:wq\r']],
      top: ['top -d 1', [/load average/, 'q']],
      python3: ['python3 -q', [/>>> /, 'print(6 * 7)\r'], [/42\s/, 'exit(5)\r']],
    } as const
    const found: Record<string, number | null> = {}
    for (const [program, [command, ...steps]] of Object.entries(cases))
      if ((await ssh(['command', '-v', program])).code === 0) found[program] = await terminal(command, steps)
    client.end()
    for (const [program, code] of Object.entries(found))
      expect([program, code]).toEqual([program, program === 'python3' ? 5 : 0])
    if ('vim' in found) expect(await readFile(file, 'utf8')).toBe('written in vim\n')
  })

  it('an editor can start its server over ssh -T, and reach it through a forwarded port and a SOCKS proxy', async () => {
    const user = `web.${ann.project}@127.0.0.1`
    await mkdir(at('editor'))
    await symlink(process.execPath, at('node'))
    // Editors such as VS Code start their servers in this way: a script on standard input starts an uploaded program,
    // which listens on 127.0.0.1.
    await writeFile(
      at('server.js'),
      "const s = require('http').createServer((q, r) => r.end('editor ' + q.url)).listen(0, '127.0.0.1', () => console.log('port=' + s.address().port))",
    )
    const up = await openssh('sftp', ['-b', '-', user], `put ${at('server.js')} ${at('editor/server.js')}\n`)
    expect(up).toMatchObject({ code: 0 })
    const script = `
      set -e
      cd ${at('editor')}
      echo "arch=$(uname -m)"
      ( setsid ${at('node')} server.js > log 2>&1 < /dev/null & echo $! > pid )
      for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        grep -q port= log && break
        sleep 1
      done
      cat log`
    const started = await openssh('ssh', ['-T', user, 'sh'], script)
    const [, port = ''] = /arch=\S+\nport=(\d+)/.exec(started.out) ?? []
    expect([started.code, Number(port) > 0]).toEqual([0, true])
    const request = 'GET /direct HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n'
    expect((await openssh('ssh', ['-W', `localhost:${port}`, user], request)).out).toContain('editor /direct')
    const socks = await freePort()
    const proxy = spawn('ssh', [...options(), '-p', `${bastion.port}`, '-N', '-D', `127.0.0.1:${socks}`, user], {
      stdio: 'ignore',
    })
    try {
      const viaSocks = () =>
        run('curl', ['-sS', '--socks5-hostname', `127.0.0.1:${socks}`, `http://localhost:${port}/socks`]).catch(
          () => '',
        )
      expect(await until(viaSocks, { what: 'the proxy' })).toBe('editor /socks')
    } finally {
      proxy.kill()
      await ssh([`kill $(cat ${at('editor/pid')})`])
    }
  })

  it('if two projects of an account have an app with the same name, the SSH user name must include the project', async () => {
    const made = await ann.post('/v1/projects', { name: 'second' })
    const slug = made.body.tenant_id
    const image = 'docker.io/library/nginx:1.27'
    await ann.post(`/v1/deploy?project=${slug}`, { app_name: 'web', image })
    await expect(connectAs('web', { password: await token(ann) })).rejects.toThrow('authentication')
    const client = await connectAs(`web.${slug}`, { password: await token(ann) })
    client.end()
  })

  // With MOTE_SSH_MIB=100, the test copies 100 MiB and prints how long the copies take.
  it('scp copies files unchanged in both directions, even with a control plane that supports only base64 text', async () => {
    const bytes = Number(process.env.MOTE_SSH_MIB ?? 3) << 20
    const sent = randomBytes(bytes)
    await writeFile(at('large'), sent)
    const timed = async (what: string, act: () => Promise<{ readonly code: number | null }>) => {
      const beganMs = performance.now()
      const before = process.cpuUsage()
      const { code } = await act()
      const { user, system: kernel } = process.cpuUsage(before)
      if (process.env.MOTE_SSH_MIB)
        console.log(
          what,
          Math.round(performance.now() - beganMs),
          'ms, of the processor',
          Math.round((user + kernel) / 1000),
        )
      expect(code).toBe(0)
    }
    const copies = async (name: string) => {
      await timed(`${name}: scp into the VM`, () =>
        openssh('scp', [at('large'), `web.${ann.project}@127.0.0.1:${at(name)}`]),
      )
      await timed(`${name}: scp out of the VM`, () =>
        openssh('scp', [`web.${ann.project}@127.0.0.1:${at(name)}`, at(`${name}-back`)]),
      )
      const files = await Promise.all([name, `${name}-back`].map(async one => (await readFile(at(one))).equals(sent)))
      expect(files).toEqual([true, true])
    }
    await copies('bytes')
    const { request } = system.bus
    let isText = true
    system.bus.request = async (subject, data, options) => {
      if (subject === shellSubjects.ask)
        isText &&= !(data instanceof Uint8Array) && !JSON.stringify(data).includes('"bytes"')
      const answer = await request.call(system.bus, subject, data, options)
      if (subject === shellSubjects.open) Reflect.deleteProperty(Object(answer), 'takesBytes')
      return answer
    }
    try {
      await copies('text')
      expect(isText).toBe(true)
    } finally {
      system.bus.request = request
    }
  })

  it('an SSH session continues after a restart of the control plane', async () => {
    const client = await connectAs(`web.${ann.project}`, { privateKey: await readFile(at('id'), 'utf8') })
    const channel = await new Promise<ssh2.ClientChannel>((resolve, reject) =>
      client.exec('while read -r line; do echo "got $line"; done', (error, opened) =>
        error ? reject(error) : resolve(opened),
      ),
    )
    let output = ''
    channel.on('data', (data: Buffer) => (output += data.toString()))
    channel.write('one\n')
    await until(() => output === 'got one\n', { what: 'the first line' })
    await system.restartControl()
    channel.write('two\n')
    await until(() => output === 'got one\ngot two\n', { what: 'the second line', timeoutMs: 30_000 })
    client.end()
  })
})

/** Opens an SFTP subsystem, sends the bytes to it, and returns its output. */
async function subsystem(client: ssh2.Client, sent: Buffer): Promise<Buffer> {
  const channel = await new Promise<ssh2.ClientChannel>((resolve, reject) =>
    client.subsys('sftp', (error, opened) => (error ? reject(error) : resolve(opened))),
  )
  const parts: Buffer[] = []
  channel.on('data', (part: Buffer) => parts.push(part))
  channel.end(sent)
  await once(channel, 'close')
  return Buffer.concat(parts)
}
