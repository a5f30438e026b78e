// Not repeated on the distribution's PostgreSQL: this file tests the CLI, not the database.
/** Runs the CLI as a process: configuration file, exit codes, JSON output, and prompts on a terminal. */
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../src/lib/exec.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { itInAll, runsAll } from '../support/all-examples.ts'
import { cli } from '../support/cli.ts'
import { moteProgram } from '../support/program.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'

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

const mote: ReturnType<typeof cli>['run'] = (...call) => cli({ home }).run(...call)
const moteOnTerminal: ReturnType<typeof cli>['onTerminal'] = (...call) => cli({ home }).onTerminal(...call)

describe('signing in', () => {
  it('is explained by commands without a token, which exit with 1', async () => {
    const { code, err } = await mote(['apps', 'list', '--url', url()])
    expect([code, err]).toEqual([1, expect.stringContaining('mote login')])
  })

  it('prompts on a terminal, hides the password, and stores a token that only the user can read', async () => {
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

  it('leaves no login session behind, only an access token', async () => {
    const { body } = await user.get<{ current: boolean }[]>('/v1/auth/sessions')
    expect(body.filter(session => !session.current)).toEqual([])
  })

  it('lets mote whoami print the account', async () => {
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

  it('is launched from a folder after prompts for name, image and port, and serves', async () => {
    const { code, out } = await moteOnTerminal(
      ['launch', `'${folder}'`],
      [
        [/Name of the app\?/, 'shop'],
        [/What do you want to deploy\?/, '\u001b[B\u001b[B'],
        [/Which image\?/, 'oci:hello'],
        [/Which port/, '8080'],
      ],
    )
    expect(out).toContain('static site (index.html)')
    expect(out).toContain('shop serves at http://shop')
    expect(code).toBe(0)
    const { app, build, processes } = parse(await readFile(join(folder, 'mote.toml'), 'utf8'))
    expect([app, build, processes]).toEqual(['shop', { image: 'oci:hello' }, { web: { port: 8080 } }])
  })

  it('becomes the default app of the folder', async () => {
    const { code, out } = await mote(['status', '--json'], { cwd: folder })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ app_name: 'shop', status: 'running' })
  })

  it('is redeployed with exit code 0 if the new version serves, otherwise 1', async () => {
    const good = await mote(['deploy', '--image', 'oci:hello'], { cwd: folder })
    expect(good).toMatchObject({ code: 0, out: expect.stringContaining('shop serves at') })
    await mote(['env', 'set', 'MOTE_FAKE=boot-fails'], { cwd: folder })
    const bad = await mote(['deploy', '--image', 'oci:hello'], { cwd: folder })
    expect(bad).toMatchObject({ code: 1, err: expect.stringContaining('Deployment failed:') })
    await mote(['env', 'unset', 'MOTE_FAKE'], { cwd: folder })
  })

  it('is rolled back to the previous deployment', async () => {
    const back = await mote(['rollback'], { cwd: folder })
    expect(back.err).not.toMatch(/Error|because/)
    expect(back).toMatchObject({ code: 0, out: expect.stringContaining('shop serves at') })
  })

  // Not in `npm test`: explain.test.ts covers dry runs.
  itInAll('is not changed by deploy --dry-run, which prints the host that a VM would run on', async () => {
    const before = await user.get('/v1/apps/shop/deployments')
    const { code, out } = await mote(['deploy', '--image', 'oci:hello', '--dry-run'], { cwd: folder })
    expect([code, out]).toEqual([0, expect.stringMatching(/^It would go to /)])
    expect((await user.get('/v1/apps/shop/deployments')).body).toEqual(before.body)
  })

  // Not in `npm test`: quickstart.test.ts covers this.
  itInAll('is scaled', async () => {
    const { code, out } = await mote(['scale', '2', '--max', '3', '--json'], { cwd: folder })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ desired_replicas: 2, max_replicas: 3 })
  })

  // Not in `npm test`: the exit codes in cli-commands.test.ts cover this.
  itInAll('is not scaled to invalid values, which are reported with the field name', async () => {
    const { code, err } = await mote(['scale', '--min', '5', '--max', '2'], { cwd: folder })
    expect(code).toBe(1)
    expect(err).toMatch(/min_replicas|max_replicas/)
  })

  // Not in `npm test`: quickstart.test.ts covers this.
  itInAll('has a log that is followed until Ctrl-C, with exit code 130', async () => {
    const { code, out } = await mote(['logs', '-f'], { cwd: folder, interruptAt: /./ })
    expect([code, out]).toEqual([130, expect.stringMatching(/\S/)])
  })

  // Not in `npm test`: Ctrl-C during `mote db create` in cli-machine.test.ts covers this.
  itInAll('continues its deployment when Ctrl-C ends mote deploy with exit code 130', async () => {
    await mote(['env', 'set', 'MOTE_FAKE=unhealthy'], { cwd: folder })
    const watched = await mote(['deploy', '--image', 'oci:hello'], { cwd: folder, interruptAt: /starting/ })
    expect(watched).toMatchObject({ code: 130, err: expect.stringContaining('Interrupted') })
    const [newest] = (await user.get('/v1/apps/shop/deployments')).body
    expect(newest.status, 'the deployment continues unchanged').toBe('starting')
    expect((await user.get('/v1/apps/shop')).body.active_deployment_id).not.toBe(newest.id)
    expect(await mote(['deployments', 'cancel', newest.job_id], { cwd: folder })).toMatchObject({ code: 0 })
    await mote(['env', 'unset', 'MOTE_FAKE'], { cwd: folder })
  })

  it('is deleted with --yes, but not after a wrong name is typed', async () => {
    const other = await moteOnTerminal(['apps', 'delete', 'shop'], [[/Type its name/, 'shopp']])
    expect(other).toMatchObject({ code: 1, out: expect.stringContaining('nothing was deleted') })
    expect((await user.get('/v1/apps/shop')).status).toBe(200)
    expect(await mote(['apps', 'delete', 'shop', '--yes'])).toMatchObject({ code: 0 })
  })
})

describe('every command', () => {
  it.each([
    // Only partly in `npm test`: the other commands cover those with `runsAll`, because the same code prints all lists.
    ...(runsAll ? [['apps', 'list']] : []),
    ['deployments', 'list', '--app', 'none'],
    ...(runsAll ? [['ps'], ['volumes', 'list']] : []),
    ['db', 'list'],
    ...(runsAll ? [['projects', 'list']] : []),
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

  it('exits with 2 if an argument is missing', async () => expect((await mote(['apps', 'create'])).code).toBe(2))

  it("names the server's address if it does not respond", async () => {
    const { code, err } = await mote(['ps', '--url', 'http://127.0.0.1:9'])
    expect([code, err]).toEqual([1, expect.stringContaining('No server answers at http://127.0.0.1:9')])
  })

  it('mote status of an app that does not exist fails with advice on what to check', async () => {
    expect(await mote(['status', '--app', 'no-such-app'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('Check the names that you gave'),
    })
  })
})

describe('launching a folder', () => {
  const folders = [
    { holds: 'nothing', files: {}, port: '8080', offers: 'an OCI image' },
    { holds: 'a Node app', files: { 'package.json': '{}' }, port: '3000', offers: 'this folder' },
    { holds: 'a Dockerfile', files: { Dockerfile: 'FROM x\nEXPOSE 9000\n' }, port: '9000', offers: 'this folder' },
  ]
  // Not in `npm test`: the launch above covers the prompts, and src/cli/folder-kind.test.ts the kinds of folders.
  itInAll.each(folders)(
    'that contains $holds proposes suitable settings, and the app serves',
    async ({ holds, files, port, offers }) => {
      const folder = await mkdtemp(join(home, `${holds.replaceAll(/[^a-z]/gi, '-').toLowerCase()}-`))
      for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
      const down = offers === 'an OCI image' ? '' : '\u001b[B\u001b[B'
      const { code, out } = await moteOnTerminal(
        ['launch', `'${folder}'`],
        [
          [/Name of the app\?/, ''],
          [/What do you want to deploy\?/, down],
          [/Which image\?/, 'oci:hello'],
          [/Which port/, ''],
        ],
      )
      expect(out).toContain(holds === 'nothing' ? 'What do you want to deploy?' : `This folder contains ${holds}`)
      expect(out).toContain('serves at')
      expect(code).toBe(0)
      const { app } = parse(await readFile(join(folder, 'mote.toml'), 'utf8'))
      expect((await user.get(`/v1/apps/${String(app)}`)).body.port).toBe(Number(port))
    },
  )

  it('with a Procfile creates its workers and release command without a prompt', async () => {
    const folder = await mkdtemp(join(home, 'procfile-'))
    await writeFile(join(folder, 'package.json'), '{}')
    await writeFile(join(folder, 'Procfile'), 'web: node a.js\nmails: node mails.js\nrelease: node migrate.js\n')
    const { err } = await mote(['launch', folder, '--name', 'procs'])
    expect(err).toContain('From its Procfile: the release command, the worker mails.')
    // Simulated hosts cannot build, so the worker has no image.
    expect(err).toContain('New versions of workers: mails.')
    expect(err).toContain('This host only simulates VMs: it cannot build.')
    const { processes } = parse(await readFile(join(folder, 'mote.toml'), 'utf8'))
    expect(processes).toEqual({ web: { port: 3000 }, mails: { command: ['/bin/sh', '-c', 'node mails.js'] } })
    expect((await user.get('/v1/apps/procs')).body.release_command).toEqual(['/bin/sh', '-c', 'node migrate.js'])
  })

  // Not in `npm test`: cli-questions.test.ts covers this.
  itInAll('without a terminal for prompts fails and names the required flags', async () => {
    const folder = await mkdtemp(join(home, 'unasked-'))
    expect(await mote(['launch'], { cwd: folder })).toMatchObject({
      code: 1,
      err: expect.stringContaining('--image, --git-url or --upload'),
    })
  })
})

/**
 * Scripts that load the completion in each shell, as `mote --help` describes, and print the completions that Tab would
 * offer after `mote volumes `.
 */
const shells = [
  {
    shell: 'bash',
    args: ['--norc', '-c'],
    script: [
      'source <(mote complete bash) && complete -p mote >/dev/null',
      'COMP_WORDS=(mote volumes ""); COMP_CWORD=2; _mote; echo "${COMPREPLY[@]}"',
    ],
  },
  {
    shell: 'zsh',
    args: ['-f', '-c'],
    script: [
      'autoload -Uz compinit && compinit -D && source <(mote complete zsh)',
      '(( ${+_comps[mote]} )) && mote complete -- volumes ""',
    ],
  },
  {
    shell: 'fish',
    args: ['--no-config', '-c'],
    script: ['mote complete fish | source', 'complete -C "mote volumes "'],
  },
]

describe('shell completion', () => {
  let bin = ''
  beforeAll(async () => {
    bin = join(home, 'bin')
    await mkdir(bin)
    await writeFile(join(bin, 'mote'), `#!/bin/sh\nexec '${process.execPath}' '${moteProgram}' "$@"\n`)
    await chmod(join(bin, 'mote'), 0o755)
  })

  it.each(shells)('in $shell offers subcommands', async ({ shell, args, script }) => {
    if (!(await hasProgram(shell))) return void process.stderr.write(`${shell} is not installed: not looked at\n`)
    const env = { PATH: `${bin}:${process.env.PATH}`, HOME: home }
    const out = await run(shell, [...args, script.join('\n')], { env })
    expect(out).toMatch(/snapshots/)
    expect(out).toMatch(/attach/)
  })
})

it('mote logout revokes and forgets the token', async () => {
  const kept = JSON.parse(await readFile(join(home, '.config', 'mote', 'config.json'), 'utf8')) as { token: string }
  expect(await mote(['logout'])).toMatchObject({ code: 0, out: expect.stringContaining('revoked') })
  expect((await system.api.as(kept.token).get('/v1/auth/me')).status).toBe(401)
  expect((await mote(['whoami'])).code).toBe(1)
})
