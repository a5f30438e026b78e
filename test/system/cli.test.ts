/** The command line as a program: its own process, a configuration of its own, exit codes, JSON, and a terminal. */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'

const mainFile = new URL('../../src/cli/main.ts', import.meta.url).pathname

interface Ran {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

let system: TestSystem
let user: TestUser
let home = ''

beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({ fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 200 } })
  user = await system.user()
  home = await mkdtemp(join(tmpdir(), 'mote-cli-'))
})
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

const url = () => `http://127.0.0.1:${system.control.port}`

function environment(): NodeJS.ProcessEnv {
  const { MOTE_TOKEN: _, MOTE_URL: __, MOTE_PROJECT: ___, ...rest } = process.env
  return { ...rest, HOME: home, XDG_CONFIG_HOME: join(home, '.config'), NO_COLOR: '1', TERM: 'xterm' }
}

function mote(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  return run(process.execPath, [mainFile, ...args], options)
}

/** `script` gives the program a terminal; what is typed goes to it. */
function moteOnTerminal(args: readonly string[], answers: readonly (readonly [RegExp, string])[]): Promise<Ran> {
  // The pseudo-terminal of `script` has no size of its own, and prompts wrap at its width.
  const command = ['stty cols 120 rows 40;', process.execPath, mainFile, ...args].join(' ')
  return run('script', ['-qec', command, '/dev/null'], { answers })
}

interface RunOptions {
  readonly input?: string
  readonly cwd?: string
  /** Ctrl-C as soon as it has written something. */
  readonly interruptAtOutput?: boolean
  readonly answers?: readonly (readonly [RegExp, string])[]
}

function run(
  program: string,
  args: readonly string[],
  { input, cwd, interruptAtOutput, answers }: RunOptions,
): Promise<Ran> {
  const child = spawn(program, args, { env: environment(), ...(cwd ? { cwd } : {}), stdio: 'pipe' })
  let [out, err, asked, seen] = ['', '', 0, 0]
  let interrupted = false
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
    if (interruptAtOutput && !interrupted) interrupted = child.kill('SIGINT')
    const next = answers?.[asked]
    if (!next?.[0].test(out.slice(seen))) return
    asked++
    seen = out.length
    child.stdin.write(`${next[1]}\r`)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  if (answers === undefined) child.stdin.end(input ?? '')
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve({ code, out, err }))
  })
}

describe('signing in', () => {
  it('says how when nobody is signed in, with exit code 1', async () => {
    const { code, err } = await mote(['apps', 'list', '--url', url()])
    expect([code, err]).toEqual([1, expect.stringContaining('mote login')])
  })

  it('asks on a terminal, hides the password, and keeps a token that only the owner can read', async () => {
    const { code, out } = await moteOnTerminal(
      ['login', '--url', url()],
      [
        [/E-mail/, user.email],
        [/Password/, user.password],
      ],
    )
    expect(out).toContain(`Signed in to ${url()} as ${user.email}`)
    expect(out).not.toContain(user.password)
    expect(code).toBe(0)
    const file = join(home, '.config', 'mote', 'config.json')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ url: url(), token: /^svc_pat_/ })
  })

  it('leaves no session behind, only the token', async () => {
    const { body } = await user.get<{ current: boolean }[]>('/v1/auth/sessions')
    expect(body.filter(session => !session.current)).toEqual([])
  })

  it('knows who it is', async () => {
    const { code, out } = await mote(['whoami', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ email: user.email, url: url() })
  })
})

describe('an app', () => {
  let folder = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(home, 'My Shop-'))
    await writeFile(join(folder, 'index.html'), '<h1>shop</h1>')
  })

  it('is launched from a folder by three questions, and serves', async () => {
    const { code, out } = await moteOnTerminal(
      ['launch', `'${folder}'`],
      [
        [/What shall the app be called\?/, 'shop'],
        [/What shall be deployed\?/, '\u001b[B'],
        [/Which image\?/, 'oci:hello'],
        [/Which port/, '8080'],
      ],
    )
    expect(out).toContain('static site (index.html)')
    expect(out).toContain('shop serves at shop')
    expect(code).toBe(0)
    expect(JSON.parse(await readFile(join(folder, 'mote.json'), 'utf8'))).toEqual({ app: 'shop' })
  })

  it('is the one of the folder afterwards', async () => {
    const { code, out } = await mote(['status', '--json'], { cwd: folder })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ app_name: 'shop', status: 'running' })
  })

  it('is deployed again with a true exit code: 0 when it serves, 1 when it does not', async () => {
    const good = await mote(['deploy', '--image', 'oci:hello'], { cwd: folder })
    expect(good).toMatchObject({ code: 0, out: expect.stringContaining('shop serves at') })
    await mote(['env', 'set', 'MOTE_FAKE=boot-fails'], { cwd: folder })
    const bad = await mote(['deploy', '--image', 'oci:hello'], { cwd: folder })
    expect(bad).toMatchObject({ code: 1, err: expect.stringContaining('The deployment is failed') })
    await mote(['env', 'unset', 'MOTE_FAKE'], { cwd: folder })
  })

  it('goes back to the deployment before', async () => {
    const back = await mote(['rollback'], { cwd: folder })
    expect(back.err).not.toMatch(/Error|because/)
    expect(back).toMatchObject({ code: 0, out: expect.stringContaining('shop serves at') })
  })

  it('explains a deploy without doing it', async () => {
    const before = await user.get('/v1/apps/shop/deployments')
    const { code, out } = await mote(['deploy', '--image', 'oci:hello', '--dry-run'], { cwd: folder })
    expect([code, out]).toEqual([0, expect.stringMatching(/^It would go to /)])
    expect((await user.get('/v1/apps/shop/deployments')).body).toEqual(before.body)
  })

  it('is scaled', async () => {
    const { code, out } = await mote(['scale', '2', '--max', '3', '--json'], { cwd: folder })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ desired_replicas: 2, max_replicas: 3 })
  })

  it('shows wrong values with the field', async () => {
    const { code, err } = await mote(['scale', '--min', '5', '--max', '2'], { cwd: folder })
    expect(code).toBe(1)
    expect(err).toMatch(/min_replicas|max_replicas/)
  })

  it('follows its log until Ctrl-C, with exit code 130', async () => {
    const { code, out } = await mote(['logs', '-f'], { cwd: folder, interruptAtOutput: true })
    expect([code, out]).toEqual([130, expect.stringMatching(/\S/)])
  })

  it('is not deleted when another name is typed, and is with --yes', async () => {
    const other = await moteOnTerminal(['apps', 'delete', 'shop'], [[/Type its name/, 'shopp']])
    expect(other).toMatchObject({ code: 1, out: expect.stringContaining('nothing was deleted') })
    expect((await user.get('/v1/apps/shop')).status).toBe(200)
    expect(await mote(['apps', 'delete', 'shop', '--yes'])).toMatchObject({ code: 0 })
  })
})

describe('every command', () => {
  it.each([
    ['apps', 'list'],
    ['deployments', 'list', '--app', 'none'],
    ['ps'],
    ['volumes', 'list'],
    ['db', 'list'],
    ['projects', 'list'],
    ['projects', 'members'],
    ['tokens', 'list'],
    ['notifications'],
    ['audit'],
    ['billing'],
    ['mesh'],
  ])('%s %s prints JSON and nothing else with --json', async (...args) => {
    const { code, out, err } = await mote([...args, '--json'])
    if (args.includes('none'))
      return void expect([code, out, err]).toEqual([1, '', expect.stringMatching(/not found/i)])
    expect([code, err]).toEqual([0, ''])
    expect(() => JSON.parse(out)).not.toThrow()
  })

  it('says 2 for wrong usage', async () => expect((await mote(['apps', 'create'])).code).toBe(2))

  it('says where nothing answers', async () => {
    const { code, err } = await mote(['ps', '--url', 'http://127.0.0.1:9'])
    expect([code, err]).toEqual([1, expect.stringContaining('Nothing answers at http://127.0.0.1:9')])
  })

  it('completes what comes next', async () => {
    const { out } = await mote(['complete', '--', 'volumes', ''])
    expect(out).toContain('snapshots\t')
  })
})

it('signs out: the token is revoked and forgotten', async () => {
  const kept = JSON.parse(await readFile(join(home, '.config', 'mote', 'config.json'), 'utf8')) as { token: string }
  expect(await mote(['logout'])).toMatchObject({ code: 0, out: expect.stringContaining('revoked') })
  expect((await system.api.as(kept.token).get('/v1/auth/me')).status).toBe(401)
  expect((await mote(['whoami'])).code).toBe(1)
})
