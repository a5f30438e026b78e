// Not repeated on the distribution's PostgreSQL: this file tests the built program, not the database.
/**
 * Programs that people use with a running VM, tested on gVisor: psql and git through `mote proxy`; rsync, scp and port
 * forwarding through OpenSSH; and vim, top and Python on a terminal.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, type TestContext } from 'vitest'
import { minutes } from '../../src/lib/duration.ts'
import { run } from '../../src/lib/exec.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { type Cloud, startCloud } from '../stacks/cloud.ts'
import { stackImage } from '../stacks/image.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { freePort } from '../support/free-port.ts'
import { until } from '../support/wait.ts'

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const runsc = gvisor?.skip === false ? gvisor.config.programs?.runsc : undefined

/** Start command of the app: PostgreSQL, a git server and a web server in one VM. */
const services = `mkdir -p /var/lib/postgresql/data /srv
echo s3cret > /tmp/password
POSTGRES_PASSWORD_FILE=/tmp/password POSTGRES_DB=shop /opt/postgres &
git init --quiet --bare --initial-branch=main /srv/shop.git
git daemon --export-all --base-path=/srv --enable=receive-pack --reuseaddr &
cd /srv && exec python3 -m http.server 8080 --bind ::`

let cloud: Cloud
let home = ''
let whyNot = ''

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'mote-session-tools-'))
  if (!runsc || process.getuid?.() !== 0) return void (whyNot = 'gVisor cannot run here')
  for (const program of ['mmdebstrap', 'ssh', 'scp', 'rsync', 'psql', 'git'])
    if (!(await hasProgram(program))) return void (whyNot = `not installed: ${program}`)
  const image = await stackImage().catch((error: unknown) => error)
  if (typeof image !== 'string') return void (whyNot = `the image cannot be made here: ${String(image)}`)
  cloud = await startCloud({ runsc, images: [image] })
  const command = JSON.stringify(['/bin/sh', '-c', services])
  const file = `app = "tools"\n[build]\nimage = "oci:stack-tools"\n[processes.web]\nport = 8080\nmemory_mib = 1024\ncommand = ${command}\n`
  await writeFile(join(home, 'mote.toml'), file)
  await cloud.mote(['deploy', '--yes'], home)
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(home, 'id')])
  await cloud.mote(['ssh-keys', 'add', join(home, 'id.pub')], home)
  const config = await cloud.mote(['ssh', '--config'], home)
  await writeFile(join(home, 'config'), `${config}  IdentityFile ${join(home, 'id')}\n`)
}, minutes(20))
afterAll(async () => {
  await cloud?.[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
}, minutes(2))

const skipWithout = (context: TestContext) => context.skip(whyNot !== '', whyNot)
const openssh = () => ['-F', join(home, 'config')]
const ssh = (...command: string[]) => run('ssh', [...openssh(), 'mote-tools', ...command], { timeoutMs: 60_000 })

/** Waits until `child` (`mote proxy` or `ssh -N`) forwards the port. Disposal of the result stops it. */
async function forwarding(child: ChildProcess, port: number): Promise<AsyncDisposable> {
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text))
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  }
  const accepts = () =>
    run('bash', ['-c', `exec 3<>/dev/tcp/127.0.0.1/${port}`]).then(
      () => true,
      () => false,
    )
  await until(accepts, { what: `port ${port} to be forwarded` }).catch(async (cause: unknown) => {
    await stop()
    throw new Error(said, { cause })
  })
  return { [Symbol.asyncDispose]: stop }
}

const proxyTo = async (port: number, local: number) =>
  forwarding(cloud.start(['proxy', `${local}:${port}`], home), local)

/** Runs a command on a terminal in the VM, and types each text after the output since the previous text matches. */
async function onTerminal(command: string, typed: readonly (readonly [RegExp, string])[]): Promise<string> {
  const child = spawn('ssh', ['-tt', ...openssh(), 'mote-tools', `TERM=xterm ${command}`], { stdio: 'pipe' })
  let [all, fresh] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    all += text
    fresh += text
  })
  try {
    for (const [pattern, text] of typed) {
      await until(() => pattern.test(fresh), { what: `${pattern} in ${JSON.stringify(all)}`, timeoutMs: 30_000 })
      fresh = ''
      child.stdin.write(text)
    }
    if (child.exitCode === null) await once(child, 'exit')
    return all
  } finally {
    child.kill('SIGKILL')
  }
}

it('psql loads and reads 100,000 rows through mote proxy', { timeout: 120_000 }, async context => {
  skipWithout(context)
  const port = await freePort()
  await using _proxy = await proxyTo(5432, port)
  const psql = (sql: string, input?: string) =>
    run('psql', ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres', '-Atqc', sql, 'shop'], {
      env: { PGPASSWORD: 's3cret' },
      ...(input === undefined ? {} : { input }),
    })
  await until(
    () =>
      psql('SELECT 1').then(
        () => true,
        () => false,
      ),
    { what: 'PostgreSQL', timeoutMs: 60_000 },
  )
  await psql('CREATE TABLE fruit (id int, name text)')
  const rows = Array.from({ length: 100_000 }, (_, id) => `${id}\tpear number ${id}\n`).join('')
  await psql('COPY fruit FROM stdin', rows)
  expect(await psql('COPY (SELECT * FROM fruit ORDER BY id) TO stdout')).toBe(rows)
})

it('git clones and pushes through mote proxy', { timeout: 120_000 }, async context => {
  skipWithout(context)
  const port = await freePort()
  await using _proxy = await proxyTo(9418, port)
  const git = (...args: string[]) =>
    run('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args], { cwd: home })
  await git('clone', '-q', `git://127.0.0.1:${port}/shop.git`, 'first')
  await writeFile(join(home, 'first', 'big'), Buffer.alloc(3_000_000, 'pear'))
  await git('-C', 'first', 'add', '.')
  await git('-C', 'first', 'commit', '-qm', 'Add a file')
  await git('-C', 'first', 'push', '-q', 'origin', 'HEAD:main')
  await git('clone', '-q', `git://127.0.0.1:${port}/shop.git`, 'second')
  expect((await readFile(join(home, 'second', 'big'))).equals(Buffer.alloc(3_000_000, 'pear'))).toBe(true)
})

it('rsync copies a tree to a VM, then only the changes, and the tree back', { timeout: 120_000 }, async context => {
  skipWithout(context)
  const tree = join(home, 'tree')
  await mkdir(join(tree, 'deep', 'er'), { recursive: true })
  for (let n = 0; n < 200; n++) await writeFile(join(tree, 'deep', `file ${n}`), `${n}`.repeat(5000))
  await writeFile(join(tree, 'deep', 'er', 'program'), '#!/bin/sh\n', { mode: 0o755 })
  const rsync = (...args: string[]) => run('rsync', ['-a', '--stats', '-e', `ssh ${openssh().join(' ')}`, ...args])
  const sent = (stats: string) => /files transferred: ([\d,]+)/.exec(stats)?.[1]
  expect(sent(await rsync(`${tree}/`, 'mote-tools:/tmp/tree/'))).toBe('201')
  await writeFile(join(tree, 'deep', 'file 7'), 'changed')
  await rm(join(tree, 'deep', 'file 8'))
  expect(sent(await rsync('--delete', `${tree}/`, 'mote-tools:/tmp/tree/'))).toBe('1')
  await rsync('mote-tools:/tmp/tree/', join(home, 'back/'))
  await run('diff', ['-r', tree, join(home, 'back')])
  await run('scp', ['-q', ...openssh(), 'mote-tools:/tmp/tree/deep/er/program', join(home, 'copied')])
  expect(await readFile(join(home, 'copied'), 'utf8')).toBe('#!/bin/sh\n')
})

it('vim edits a file, top shows processes, and Python evaluates input on a terminal', {
  timeout: 120_000,
}, async context => {
  skipWithout(context)
  await onTerminal('vi /tmp/note', [
    [/\/tmp\/note/, 'ihello from vim'],
    [/from vim/, '\u001b:wq\r'],
  ])
  expect(await ssh('cat /tmp/note')).toBe('hello from vim\n')
  expect(await onTerminal('top', [[/load average[^]*http\.server|load average[^]*python3/, 'q']])).toContain('PID')
  const answers = await onTerminal('python3', [
    [/>>> /, 'print(6 * 7)\r'],
    [/42\r\n>>> /, '\u0004'],
  ])
  expect(answers).toContain('42')
})

it('ssh forwards TCP ports and Unix sockets of a VM', { timeout: 60_000 }, async context => {
  skipWithout(context)
  const [port, socket] = [await freePort(), await freePort()]
  const forwards = [`${port}:localhost:8080`, `${socket}:/tmp/.s.PGSQL.5432`].flatMap(one => ['-L', one])
  const child = spawn('ssh', ['-N', ...openssh(), ...forwards, 'mote-tools'], { stdio: ['ignore', 'ignore', 'pipe'] })
  await using _forwards = await forwarding(child, port)
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toContain('shop.git')
  const viaSocket = () =>
    run('psql', ['-h', '127.0.0.1', '-p', String(socket), '-U', 'postgres', '-Atqc', 'SELECT 6 * 7', 'shop'], {
      env: { PGPASSWORD: 's3cret', PGSSLMODE: 'disable' },
    })
  expect(await until(() => viaSocket().catch(() => undefined), { what: 'the socket', timeoutMs: 30_000 })).toBe('42\n')
})
