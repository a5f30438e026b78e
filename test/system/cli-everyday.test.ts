// Not repeated on the distribution's PostgreSQL: this file tests the CLI, not the database.
/** CLI commands for everyday work: the app of a folder, .env files, what changed, and who did what. */
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, it, vi } from 'vitest'
import { itInAll } from '../support/all-examples.ts'
import { cliSystem } from '../support/cli-system.ts'
import { until } from '../support/wait.ts'

vi.setConfig({ testTimeout: 60_000 })

const { user, home, mote } = await cliSystem()
beforeAll(async () => {
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  await deploy('docker.io/library/nginx:1.26')
}, 120_000)

const newest = async () => (await user.get('/v1/apps/web/deployments')).body[0]
const deploy = async (image: string) => {
  await user.post('/v1/apps/web/deploy', { image })
  await until(async () => (await newest()).status === 'running', { what: `${image} serves`, timeoutMs: 30_000 })
}
const folder = (name: string) => mkdtemp(join(home, `${name}-`))
const linked = async () => {
  const cwd = await folder('linked')
  await writeFile(join(cwd, 'mote.toml'), 'app = "web"\n')
  return cwd
}

it('mote without a command shows the help in a folder without an app', async () => {
  const { code, out } = await mote.run([], { cwd: await folder('empty') })
  expect([code, out]).toEqual([0, expect.stringContaining('Usage: mote')])
})

it("mote without a command shows the state of the folder's app and useful commands", async () => {
  const { code, out } = await mote.run([], { cwd: await linked() })
  expect(code).toBe(0)
  expect(out).toMatch(/state +running/)
  expect(out).toMatch(/serves +nginx:1.26, since \d+s/)
  expect(out).toMatch(/url +http:\/\/web-/)
  expect(out).toMatch(/health +passing \(GET \/\)/)
  expect(out).toContain(`ago by ${user.email}`)
  expect(out).toContain('mote logs -f')
})

it('`mote here` shows why the first deployment failed, or that the app does not exist', async () => {
  await user.post('/v1/apps', { name: 'broken', git_url: '' })
  await user.call('PUT', '/v1/apps/broken/env/MOTE_FAKE', { value: 'boot-fails' })
  await user.post('/v1/apps/broken/deploy', { image: 'docker.io/library/nginx:1.26' })
  const failed = async () => (await user.get('/v1/apps/broken')).body.failure !== null
  await until(failed, { what: 'it fails', timeoutMs: 30_000 })
  const broken = await mote.run(['here', '--app', 'broken'])
  expect(broken.out).toMatch(/state +failed/)
  expect(broken.out).toMatch(/reason +the guest did not start/)
  expect(broken.out).toContain('see why it failed')
  expect((await mote.run(['apps', 'list'])).out).toMatch(/broken +failed .*the guest did not start/)
  const none = await mote.run(['here', '--app', 'nothing'])
  expect([none.code, none.out]).toEqual([0, expect.stringContaining('does not exist in the project')])
})

it('mote deployments diff compares two deployments without showing secrets', async () => {
  const before = (await newest()).job_id
  await user.call('PUT', '/v1/apps/web/env/LEVEL', { value: 'a secret value' })
  await deploy('docker.io/library/nginx:1.27')
  const after = (await newest()).job_id
  for (const words of [[], [after], [before, after]]) {
    const { code, out } = await mote.run(['deployments', 'diff', ...words, '--app', 'web'])
    expect(code).toBe(0)
    expect(out).toMatch(/image +docker.io\/library\/nginx:1.26 +docker.io\/library\/nginx:1.27/)
    expect(out).toMatch(/variable LEVEL +added/)
    expect(out).not.toContain('a secret value')
  }
  expect((await mote.run(['deployments', 'diff', after, after, '--app', 'web'])).out).toContain('have the same image')
  expect((await mote.run(['deployments', 'list', '--app', 'web'])).out).toMatch(
    /nginx:1.27 +\S+@example.com.* \d\.\d s/,
  )
})

it('mote activity and mote audit show who did what', async () => {
  const { out } = await mote.run(['activity'])
  expect(out).toMatch(new RegExp(`${user.email} +deployed web \\(docker.io/library/nginx:1.27\\)`))
  expect(out).not.toContain('signed in')
  expect((await mote.run(['audit'])).out).toMatch(new RegExp(`${user.email} +deployment.create`))
})

it('mote env import imports a .env file completely or not at all, and env pull writes it back', async () => {
  const cwd = await linked()
  await writeFile(join(cwd, '.env'), `A=1\nB="two\nlines"\nC='it is $5'\nD="it's \\$6"\n`)
  expect(await mote.run(['env', 'import', '.env', '--plain'], { cwd })).toMatchObject({ code: 0, err: '' })
  const wrong = await mote.run(['env', 'import', '-'], { cwd, input: 'E=1\nwrong line\n' })
  expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining('standard input:2:1: A line must be NAME=value')])
  const names = (await user.get('/v1/apps/web/env')).body.map((one: { name: string }) => one.name)
  expect(names).toEqual(['A', 'B', 'C', 'D', 'LEVEL'])

  const refused = await mote.run(['env', 'pull'], { cwd })
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('Give --yes')])
  const asked = await mote.onTerminal(['env', 'pull'], [[/Replace .env\?/, 'y']], cwd)
  expect(asked.out).toContain('Secrets cannot be read, and are comments: LEVEL')
  const text = await readFile(join(cwd, '.env'), 'utf8')
  expect(text).toContain('# LEVEL=')
  // Importing the pulled file changes no value.
  const before = (await user.get('/v1/apps/web/env')).body.map((one: { value: string }) => one.value)
  await mote.run(['env', 'import', '.env', '--plain'], { cwd })
  expect((await user.get('/v1/apps/web/env')).body.map((one: { value: string }) => one.value)).toEqual(before)
  expect(before).toContain(`it's $6`)
})

it('mote link links a folder to an app, by name or by choice', async () => {
  // Deploy, because variables have changed since the last deployment, and `config diff` would report that.
  await deploy('docker.io/library/nginx:1.27')
  const cwd = await folder('link')
  expect((await mote.run(['link', 'web'], { cwd })).code).toBe(0)
  expect(await readFile(join(cwd, 'mote.toml'), 'utf8')).toContain('app = "web"')
  expect((await mote.run(['config', 'diff'], { cwd })).code).toBe(0)
  expect((await mote.run(['link', 'web'], { cwd })).out).toContain('already')
  expect((await mote.run(['link', 'broken'], { cwd })).err).toContain('remove mote.toml')
  const other = await folder('choose')
  const chosen = await mote.onTerminal(['link'], [[/Which app/, '']], other)
  expect([chosen.code, chosen.out]).toEqual([0, expect.stringContaining('now act on')])
})

it('mote ps and mote info repeat their output with --watch until Ctrl-C', async () => {
  const cwd = await linked()
  expect((await mote.run(['apps', 'show'], { cwd })).out).toMatch(/name +web/)
  for (const command of ['ps', 'info']) {
    const { code, out } = await mote.run([command, '--watch'], { cwd, interruptAt: /web[\s\S]*\n/ })
    expect([command, code]).toEqual([command, 130])
    expect(out).not.toContain('\u001b')
  }
})

// Not in `npm test`: src/cli/output.test.ts covers this.
itInAll('tables fit into the terminal, without truncated ids', async () => {
  const { out } = await mote.onTerminal(['deployments', 'list', '--app', 'web'], [])
  const rows = out.split('\n').filter(line => line.startsWith('job-'))
  expect(rows.length).toBeGreaterThan(1)
  for (const row of rows) expect(row.trimEnd().length).toBeLessThanOrEqual(120)
  const { out: audit } = await mote.onTerminal(['audit'], [])
  expect(audit).toContain('…')
  expect(audit).toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/)
})

// Not in `npm test`: quickstart.test.ts covers the command, and hosts.test.ts cordoned hosts.
itInAll('mote scale reports if replicas wait for capacity', async () => {
  const hosts = (await user.get('/v1/admin/hosts')).body
  const turn = (verb: string) =>
    Promise.all(hosts.map((host: { id: string }) => user.post(`/v1/admin/hosts/${host.id}/${verb}`)))
  await turn('cordon')
  const { code, out } = await mote.run(['scale', '2', '--app', 'web', '--max', '2'])
  await turn('uncordon')
  expect([code, out]).toEqual([0, expect.stringMatching(/^web: 2 replicas, autoscaling off\n.+/)])
  await mote.run(['scale', '1', '--app', 'web'])
})

it('mote destroy deletes an app after confirmation, and its volumes only with --volumes', async () => {
  const cwd = await folder('destroy')
  await writeFile(
    join(cwd, 'mote.toml'),
    'app = "gone"\nvolumes = [{ name = "gone-data", mount = "/data", size_mib = 64 }]\n[build]\nimage = "docker.io/library/nginx:1.26"\n[processes.web]\nport = 8080\n[processes.mails]\ncommand = ["node", "mails.js"]\n',
  )
  const made = await mote.run(['deploy', '--yes'], { cwd })
  expect(made.code, made.err).toBe(0)
  const apps = async () => (await user.get('/v1/apps')).body.map((one: { name: string }) => one.name)
  expect(await apps()).toEqual(expect.arrayContaining(['gone', 'gone-mails']))
  const wrong = await mote.onTerminal(['destroy'], [[/Type its name/, 'other']], cwd)
  expect([wrong.code, wrong.out]).toEqual([1, expect.stringContaining('nothing was deleted')])
  const unasked = await mote.run(['destroy'], { cwd })
  expect([unasked.code, unasked.err]).toEqual([1, expect.stringContaining('--yes')])
  expect((await mote.run(['destroy', '--yes'], { cwd })).code).toBe(0)
  expect((await apps()).filter((name: string) => name.startsWith('gone'))).toEqual([])
  const volumes = async () => (await user.get('/v1/volumes')).body.map((one: { name: string }) => one.name)
  expect(await volumes()).toContain('gone-data')
  expect((await mote.run(['destroy', 'nothing', '--yes'])).err).toContain('There is no app nothing')
})
