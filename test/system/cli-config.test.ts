// Not repeated on the distribution's PostgreSQL: this file tests the CLI, not the database.
/** `mote config` and `mote deploy` with a `mote.toml` file, run as processes against simulated hosts. */
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { itInAll } from '../support/all-examples.ts'
import { cli, type RunOptions } from '../support/cli.ts'
import { cliSystem } from '../support/cli-system.ts'

const { user, home, mote } = await cliSystem({ imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 200 })
const folder = await mkdtemp(join(home, 'shop-'))

vi.setConfig({ testTimeout: 60_000 })

const run = (words: string, options: RunOptions = {}) => mote.run(words.split(' '), { cwd: folder, ...options })
const write = (text: string) => writeFile(join(folder, 'mote.toml'), text)
const read = () => readFile(join(folder, 'mote.toml'), 'utf8')
const app = async () => (await user.get('/v1/apps/shop')).body
const env = async () =>
  Object.fromEntries(
    (await user.get('/v1/apps/shop/env')).body.map((one: { name: string; value: string }) => [one.name, one.value]),
  )
const deployments = async () => (await user.get('/v1/apps/shop/deployments')).body.length

const first = `# The shop.
app = "shop"

[build]
image = "oci:hello"

[env]
LEVEL = "debug" # while it is new

[processes.web]
port = 3000
memory_mib = 1024
health = { path = "/health" }

[[volumes]]
name = "data"
size_mib = 64
`

describe('mote deploy with a mote.toml', () => {
  it('shows the plan of a new app and changes nothing with --plan', async () => {
    await write(first)
    const { code, out } = await run('deploy --plan')
    expect(code).toBe(0)
    expect(out).toMatch(/\+ app\s+"shop"/)
    expect(out).toMatch(/\+ env\.LEVEL\s+"debug"/)
    expect(out).toMatch(/\+ volumes\.data\s+"\/data, 64 MiB"/)
    expect((await user.get('/v1/apps/shop')).status).toBe(404)
  })

  it('creates the app with all its settings, without confirmation because nothing is removed', async () => {
    const { code, out, err } = await run('deploy')
    expect([code, out, err]).toEqual([0, expect.stringContaining('shop serves at'), expect.stringMatching(/\+ app/)])
    expect(await app()).toMatchObject({
      port: 3000,
      health_check_path: '/health',
      desired_replicas: 1,
      min_replicas: 1,
    })
    expect(await env()).toEqual({ LEVEL: 'debug' })
    const [volume] = (await user.get('/v1/volumes')).body
    expect(volume).toMatchObject({ name: 'data', size_mib: 64, attachments: [{ mount_point: '/data' }] })
    expect((await user.get('/v1/apps/shop/deployments')).body).toMatchObject([{ memory_mib: 1024, vcpus: 1 }])
  })

  // Not in `npm test`: the tests of jobs and workers cover this.
  itInAll('changes nothing if the app already matches the file', async () => {
    const before = await deployments()
    expect(await run('deploy')).toMatchObject({ code: 0, out: 'No changes: shop matches the file.\n' })
    expect(await run('config diff')).toMatchObject({ code: 0 })
    expect(await deployments()).toBe(before)
  })

  // Not in `npm test`: src/appfile/plan.test.ts covers this.
  itInAll('deploys a new version with --force although nothing has changed', async () => {
    const before = await deployments()
    expect(await run('deploy --force')).toMatchObject({ code: 0 })
    expect(await deployments()).toBe(before + 1)
  })

  it('changes the scaling settings without a new version', async () => {
    const before = await deployments()
    await write(first.replace('port = 3000', 'port = 3000\nscale_to_zero = true\ndrain_seconds = 5'))
    const { code, out } = await run('deploy')
    expect([code, out]).toEqual([0, expect.stringContaining('No new version was needed')])
    expect(await app()).toMatchObject({ min_replicas: 0, max_replicas: 1, drain_timeout: 5 })
    expect(await deployments()).toBe(before)
  })

  // Not in `npm test`: cli.test.ts covers a refused confirmation, for `apps delete`.
  itInAll('asks for confirmation on a terminal, and changes nothing after "no"', async () => {
    await write(first.replace('3000', '4000'))
    const { code, out } = await mote.onTerminal(['deploy'], [[/Apply this plan/, 'n']], folder)
    expect([code, out]).toEqual([1, expect.stringContaining('Nothing was changed')])
    expect((await app()).port).toBe(3000)
  })

  it('removes nothing without a terminal, unless --yes is given', async () => {
    await write(first.replace('LEVEL = "debug" # while it is new', ''))
    const { code, err } = await run('deploy')
    expect([code, err]).toEqual([1, expect.stringMatching(/- env\.LEVEL\s+"debug"[\s\S]*Apply it with --yes/)])
    expect(await env()).toEqual({ LEVEL: 'debug' })
    expect(await run('deploy --yes')).toMatchObject({ code: 0, out: expect.stringContaining('serves at') })
    expect(await env()).toEqual({})
  })

  it('keeps secrets, and rejects a variable with the name of a secret', async () => {
    await run('env set LEVEL=secret API_KEY=secret')
    expect(await run('deploy')).toMatchObject({ code: 0, err: expect.stringContaining('settings were changed after') })
    expect(await env()).toEqual({ LEVEL: null, API_KEY: null })
    await write(first)
    const { code, err } = await run('deploy')
    expect([code, err]).toEqual([1, expect.stringContaining('mote env unset LEVEL')])
    await run('env unset LEVEL')
    expect(await run('deploy')).toMatchObject({ code: 0 })
    expect(await env()).toEqual({ LEVEL: 'debug', API_KEY: null })
  })

  it('lists what was done before a failure, and does the rest when it runs again', async () => {
    const more = 'domains = ["www.example.com", "no domain"]\n'
    await write(`${more}${first.replace('[env]', '[env]\nMODE = "fast"')}`)
    const failed = await run('deploy')
    expect(failed.code).toBe(1)
    expect(failed.err).toMatch(/domains\.no domain failed: [^]*\n\s+done: env\.MODE, domains\.www\.example\.com\n/)
    expect(failed.err).toMatch(/not done: domains\.no domain, the deployment/)
    const before = await deployments()
    await write(`${more.replace('no domain', 'shop.example.com')}${first.replace('[env]', '[env]\nMODE = "fast"')}`)
    const { code, err } = await run('deploy')
    expect([code, err]).toEqual([
      0,
      expect.stringMatching(/\+ domains\.shop\.example\.com.*\nA new version is deployed: settings were/),
    ])
    expect(await deployments()).toBe(before + 1)
    expect(await run('deploy')).toMatchObject({ out: expect.stringContaining('No changes') })
  })

  // Only in `npm run test:all`; in `npm test`, `deploy` in cli.test.ts covers a failed deployment.
  itInAll('deploys the unchanged file again if its last version has failed', async () => {
    const domains = 'domains = ["www.example.com", "shop.example.com"]\n'
    await write(domains + first.replace('LEVEL = "debug"', 'MOTE_FAKE = "boot-fails"\nLEVEL = "debug"'))
    expect(await run('deploy --yes')).toMatchObject({
      code: 1,
      err: expect.stringContaining('Deployment failed:'),
    })
    await write(domains + first)
    expect(await run('deploy --yes')).toMatchObject({ code: 0 })
  })

  // Not in `npm test`: src/appfile/plan.test.ts covers this.
  itInAll('moves a volume to another path', async () => {
    await write(first.replace('size_mib = 64', 'size_mib = 128\nmount = "/var/lib/shop"'))
    expect(await run('deploy --yes')).toMatchObject({ code: 0 })
    const [volume] = (await user.get('/v1/volumes')).body
    expect(volume).toMatchObject({ size_mib: 128, attachments: [{ mount_point: '/var/lib/shop' }] })
    await write(first)
    expect(await run('deploy')).toMatchObject({
      code: 1,
      err: expect.stringContaining('has 128 MiB and cannot shrink'),
    })
  })

  it('detaches a volume that is removed from the file, and does not delete the volume', async () => {
    await write(first.slice(0, first.indexOf('[[volumes]]')))
    expect(await run('deploy --yes')).toMatchObject({ code: 0 })
    expect((await user.get('/v1/volumes')).body).toMatchObject([{ name: 'data', attachments: [] }])
  })

  // Not in `npm test`: `deploy --image` in cli.test.ts covers this.
  itInAll('applies values of flags to one deployment only', async () => {
    expect(await run('deploy --memory 2048')).toMatchObject({ code: 0, err: expect.stringContaining('1024 -> 2048') })
    expect((await run('config diff')).out).toMatch(/~ processes\.web\.memory_mib\s+2048 -> 1024/)
    expect(await run('deploy')).toMatchObject({ code: 0 })
  })

  it('does not apply the file to another app given with --app', async () => {
    const { code, err } = await run('deploy --app other')
    expect([code, err]).toEqual([1, expect.stringMatching(/not found/i)])
  })

  it('acts in the project that the file names', async () => {
    await run('projects create Second')
    await write(`project = "second"\n${first}`)
    expect((await run('deploy --plan')).out).toMatch(/\+ app/)
    expect((await run('apps list --json')).out).toBe('[]\n')
    await write(first.slice(0, first.indexOf('[[volumes]]')))
  })
})

describe('mote config', () => {
  it('show prints the file with all defaults, without a server', async () => {
    const { code, out } = await run('config show --json')
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      build: { image: 'oci:hello' },
      processes: { web: { port: 3000, vcpus: 1, drain_seconds: 30, scale_to_zero: false } },
      volumes: [],
    })
    expect((await run('config show')).out).toContain('[processes.web.health]\npath = "/health"')
  })

  it('validate checks a file without a server or a token, and names each error', async () => {
    const alone = cli({ home: join(home, 'nobody') })
    expect(await alone.run(['config', 'validate'], { cwd: folder })).toMatchObject({ code: 0 })
    await writeFile(join(home, 'bad.toml'), 'app = "a"\n[processes.web]\nprot = 1\n')
    const { code, out } = await alone.run(['config', 'validate', join(home, 'bad.toml')])
    expect([code, out]).toEqual([1, expect.stringMatching(/bad\.toml:3:1: processes\.web\.prot is unknown\. Did you/)])
    expect(await alone.run(['config', 'validate', 'none.toml'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('none.toml cannot be read'),
    })
  })

  // Not in `npm test`: the pull of a changed worker below and src/appfile/write.test.ts cover this.
  itInAll('pull writes changes made elsewhere into the file, and keeps its comments', async () => {
    await user.call('PATCH', '/v1/apps/shop', { port: 5000, drain_timeout: 7 })
    await user.call('PUT', '/v1/apps/shop/env/LEVEL', { value: 'info', secret: false })
    await user.call('PUT', '/v1/apps/shop/env/NEW', { value: 'yes', secret: false })
    await user.call('PATCH', '/v1/apps/shop/scale', { autoscaling_enabled: true, min_replicas: 1, max_replicas: 4 })
    const differs = await run('config diff')
    expect([differs.code, differs.out]).toEqual([1, expect.stringMatching(/~ processes\.web\.port\s+5000 -> 3000/)])
    const { code, out } = await run('config pull')
    expect([code, out]).toEqual([0, expect.stringContaining('Secrets are not part of the file: API_KEY')])
    const text = await read()
    expect(text).toMatch(/^# The shop\.\n/)
    expect(text).toContain('LEVEL = "info" # while it is new\nNEW = "yes"')
    expect(text).toMatch(/port = 5000\nmemory_mib = 1024\nhealth = \{ path = "\/health" \}/)
    expect(text).toContain('drain_seconds = 7')
    expect(text).toContain('max_replicas = 4')
    expect((await run('config diff')).out).toMatch(/^Plan for shop:\nA new version is deployed: settings were changed/)
    expect(await run('config pull')).toMatchObject({
      code: 0,
      out: expect.stringContaining('mote.toml matches the app'),
    })
    expect(await run('deploy')).toMatchObject({ code: 0 })
    expect(await run('config diff')).toMatchObject({ code: 0 })
  })

  it('pull writes a file for an app into a folder without one', async () => {
    const empty = await mkdtemp(join(home, 'empty-'))
    expect(await run('config pull --app shop', { cwd: empty })).toMatchObject({ code: 0 })
    const text = await readFile(join(empty, 'mote.toml'), 'utf8')
    expect(text).toMatch(/^#:schema http:\/\/.*\/v1\/api-docs\/mote\.schema\.json\n/)
    expect(text).toContain('image = "oci:hello"')
    expect(await run('config diff', { cwd: empty })).toMatchObject({ code: 0 })
  })
})

describe('a release command in mote.toml', () => {
  // Not in `npm test`: the Procfile in cli.test.ts and src/appfile/plan.test.ts cover this.
  itInAll('is set by the file, and removed with its key', async () => {
    const shop = first.slice(0, first.indexOf('[[volumes]]'))
    await write(`${shop}\n[release]\ncommand = ["migrate"]\n`)
    await run('deploy --yes')
    expect(await app()).toMatchObject({ release_command: ['migrate'] })
    expect(await run('deploy')).toMatchObject({ code: 0, out: expect.stringContaining('No changes') })
    await write(shop)
    expect(await run('deploy')).toMatchObject({ code: 0, err: expect.stringContaining('- release.command') })
    expect(await app()).toMatchObject({ release_command: null })
  })
})

describe('jobs in mote.toml', () => {
  it('are created, changed and deleted by the file, without a new version of the app', async () => {
    const shop = first.slice(0, first.indexOf('[[volumes]]'))
    const job = (retries: number) =>
      `\n[jobs.report]\nschedule = "@daily"\ncommand = ["report", "a b"]\nretries = ${retries}\n`
    const jobs = async () => (await user.get('/v1/apps/shop/jobs')).body
    await write(shop)
    await run('deploy --yes')
    const before = await deployments()
    await run('jobs set other @hourly --exec other --app shop')
    expect(await run('deploy')).toMatchObject({ code: 0, out: expect.stringContaining('No changes') })
    await write(shop + job(0))
    // Now the file lists jobs, so the job `other`, which it does not list, must be deleted.
    expect(await run('deploy')).toMatchObject({ code: 1, err: expect.stringContaining('- jobs.other') })
    expect(await run('deploy --yes')).toMatchObject({ code: 0 })
    expect(await jobs()).toMatchObject([
      { name: 'report', schedule: '@daily', command: ['report', 'a b'], time_zone: 'UTC' },
    ])
    await run('jobs pause report --app shop')
    await write(shop + job(3))
    expect(await run('deploy')).toMatchObject({
      code: 0,
      err: expect.stringMatching(/~ jobs\.report\.retries\s+0 -> 3/),
    })
    expect(await jobs()).toMatchObject([{ name: 'report', retries: 3, paused: true }])
    await run('jobs set nightly @daily --zone Europe/Berlin --exec night --app shop')
    await run('config pull')
    expect(await read()).toContain('time_zone = "Europe/Berlin"')
    await write(`${shop}\n[jobs]\n`)
    await run('deploy --yes')
    expect([await jobs(), await deployments()]).toEqual([[], before])
    await write(shop)
  })
})

describe('workers in mote.toml', () => {
  const shop = first.slice(0, first.indexOf('[[volumes]]'))
  const workers = (script: string) => `${shop}
[processes.mails]
command = ["node", "${script}"]
`
  const apps = async () => (await user.get('/v1/apps')).body.map((app: { name: string }) => app.name).sort()
  const runs = async () => (await user.get('/v1/apps/shop-mails/deployments')).body

  it('are created with the image and the variables of the app', async () => {
    await write(workers('mails.js'))
    await run('deploy --yes')
    const { code, err, out } = await run('deploy')
    expect([code, out, err]).toEqual([0, 'No changes: shop matches the file.\n', ''])
    expect(await apps()).toEqual(['shop', 'shop-mails'])
    expect((await user.get('/v1/apps/shop-mails')).body).toMatchObject({
      kind: 'worker',
      env_of: 'shop',
      command: ['node', 'mails.js'],
      hostname: null,
    })
    expect(await runs()).toMatchObject([{ status: 'running', memory_mib: 512 }])
  })

  // Not in `npm test`: the tests before and after cover the creation, change and removal of a worker.
  itInAll('have every setting that the file has, and no longer those that are removed from it', async () => {
    const settings = {
      command: '["node", "mails.js"]',
      vcpus: '2',
      memory_mib: '1024',
      disk_mib: '2048',
      replicas: '2',
      autoscaling: '{ max_replicas = 3, cpu_percent = 70, memory_percent = 60 }',
      restart: '"on-failure"',
      max_restarts: '3',
      strategy: '"one-at-a-time"',
      hosts: '{ prefer = { region = "eu" } }',
    }
    const { processes } = (await user.get('/v1/api-docs/mote.schema.json')).body.properties
    const [worker] = Object.values<{ properties: object }>(processes.patternProperties)
    expect(Object.keys(settings).toSorted()).toEqual(Object.keys(worker?.properties ?? {}).toSorted())
    const lines = Object.entries(settings).map(([key, value]) => `${key} = ${value}`)
    await write(`${shop}\n[processes.mails]\n${lines.join('\n')}\n`)
    for (const text of [await read(), workers('mails.js')]) {
      await write(text)
      expect(await run('deploy --yes')).toMatchObject({ code: 0 })
      expect((await run('deploy')).out).toBe('No changes: shop matches the file.\n')
      await run('config pull')
      expect(await read()).toBe(text)
    }
    expect((await runs())[0]).toMatchObject({ status: 'running', memory_mib: 512 })
  })

  // Not in `npm test`: the next test changes a worker, and src/appfile/plan.test.ts covers what gets a new version.
  itInAll(
    'get a new version alone if only their settings change, and with the app if its variables change',
    async () => {
      const before = (await runs()).length
      const web = await deployments()
      await write(workers('other.js'))
      expect(await run('deploy')).toMatchObject({
        code: 0,
        err: expect.stringContaining('New versions of workers: mails'),
      })
      expect([(await runs()).length, await deployments()]).toEqual([before + 1, web])
      await run('env set API_KEY=other')
      expect(await run('deploy')).toMatchObject({ code: 0 })
      expect([(await runs()).length, await deployments()]).toEqual([before + 2, web + 1])
      expect(await run('config diff')).toMatchObject({ code: 0 })
    },
  )

  it('are pulled into the file after a change elsewhere, and reset by a deploy that leaves the app alone', async () => {
    await write(workers('other.js'))
    const web = (await app()).active_deployment_id
    await user.call('PATCH', '/v1/apps/shop-mails', { port: 8080, command: ['false'] })
    expect((await run('config diff')).out).toMatch(
      /~ processes\.mails\.command\s+\["false"\] -> \["node","other\.js"\]/,
    )
    expect(await run('config pull')).toMatchObject({ code: 0 })
    expect(await read()).toContain('[processes.mails]\ncommand = ["false"]')
    await write(workers('other.js'))
    expect(await run('deploy')).toMatchObject({ code: 0 })
    expect((await app()).active_deployment_id).toBe(web)
  })

  // Not in `npm test`: `deploy` in cli.test.ts covers a failed deployment.
  itInAll('fail their deployment if they crash, while the previous version and the app keep running', async () => {
    const web = (await app()).active_deployment_id
    const { active_deployment_id: before } = (await user.get('/v1/apps/shop-mails')).body
    await write(workers('other.js').replace('"node", "other.js"', '"sh", "-c", "exit 3"'))
    const { code, err } = await run('deploy')
    expect([code, err]).toEqual([1, expect.stringContaining('The program exited with code 3.')])
    expect((await user.get('/v1/apps/shop-mails')).body.active_deployment_id).toBe(before)
    expect((await app()).active_deployment_id).toBe(web)
    expect((await run('deploy --plan')).out).toContain('New versions of workers: mails')
  })

  it('are deleted when they are removed from the file, after confirmation', async () => {
    await write(shop)
    expect(await run('deploy')).toMatchObject({ code: 1, err: expect.stringContaining('- processes.mails') })
    expect(await run('deploy --yes')).toMatchObject({ code: 0 })
    expect((await user.get('/v1/apps/shop-mails')).status).toBe(404)
  })
})

describe('files of an app, and build settings', () => {
  const files = async () => (await user.get('/v1/apps/conf/files')).body
  const toml = (more: string) => `app = "conf"\n\n[build]\nimage = "oci:hello"\n\n${more}`

  // Not in `npm test`: src/appfile/plan.test.ts, src/control/apps/files.test.ts and test/stacks/stacks.test.ts
  // cover this.
  itInAll('are set by mote.toml with the first deployment, and a changed file makes a new version', async () => {
    await writeFile(join(folder, 'web.conf'), 'level = 1\n')
    const given = '[[files]]\npath = "/etc/web.conf"\nsource = "web.conf"\nmode = "0600"\n'
    await write(toml(given))
    expect((await run('deploy')).code).toBe(0)
    expect(await files()).toMatchObject([{ path: '/etc/web.conf', mode: '0600', secret: false, size_bytes: 10 }])
    expect((await run('deploy')).out).toContain('No changes')
    await writeFile(join(folder, 'web.conf'), 'level = 2\n')
    const changed = await run('deploy')
    expect(changed.err + changed.out).toContain('~ files./etc/web.conf')
    expect((await user.get('/v1/apps/conf/deployments')).body).toHaveLength(2)
    await write(toml(`${given}\n[[files]]\npath = "/run/key"\nsecret = "KEY"\n`))
    expect((await run('deploy')).err).toContain('files (/run/key): the app has no variable KEY')
    await run('env set KEY=secret-value')
    expect((await run('deploy')).code).toBe(0)
    expect(await files()).toMatchObject([{}, { path: '/run/key', variable: 'KEY' }])
    const pulled = await run('config pull')
    expect(pulled.out).toContain('matches the app')
    await write(toml('[build.args]\nA = "1"\n'))
    const refused = await run('config validate')
    expect(refused.out + refused.err).toContain('build.args cannot be combined with image')
    await write(toml(''))
    expect((await run('deploy --yes')).code).toBe(0)
    expect(await files()).toEqual([])
  })

  it('are changed and shown by mote app-files and mote builds settings', async () => {
    // In `npm test`, which skips the test above, the app and the file do not exist yet.
    await user.post('/v1/apps', { name: 'conf', git_url: '' })
    await writeFile(join(folder, 'web.conf'), 'level = 2\n')
    expect((await run('app-files set /etc/web.conf web.conf --app conf --mode 0640')).code).toBe(0)
    expect((await run('app-files list --app conf')).out).toMatch(/\/etc\/web\.conf\s+0640\s+10 B/)
    expect((await run('app-files show /etc/web.conf --app conf')).out).toBe('level = 2\n')
    expect((await run('app-files unset /etc/web.conf --app conf')).code).toBe(0)
    const settings = 'builds settings --app conf --dockerfile a/Dockerfile --arg A=1 B=2 --secret KEY'
    expect((await run(settings)).out).toMatch(/a\/Dockerfile[^]*A=1 B=2[^]*KEY/)
    const { body } = await user.get('/v1/apps/conf')
    expect(body.build).toEqual({ dockerfile: 'a/Dockerfile', args: { A: '1', B: '2' }, env: [], secrets: ['KEY'] })
  })
})

describe('environment groups', () => {
  // Not in `npm test`: src/control/variables/variables.test.ts and src/appfile/plan.test.ts cover this.
  itInAll('are created by commands, attached by mote.toml, and give their variables to new versions', async () => {
    await write('app = "grouped"\nenv_groups = ["shared"]\n\n[build]\nimage = "oci:hello"\n')
    expect((await run('apps create grouped')).code).toBe(0)
    expect((await run('deploy --yes')).err).toContain('there is no environment group shared')
    expect((await run('env-groups create shared')).code).toBe(0)
    expect((await run('env-groups set shared LEVEL=debug OTHER=1 --plain')).code).toBe(0)
    expect((await run('deploy --yes')).code).toBe(0)
    expect((await run('env-groups list')).out).toMatch(/shared\s+2\s+grouped/)
    expect((await run('deploy')).out).toContain('No changes')
    expect((await run('env-groups set shared LEVEL=info --plain')).code).toBe(0)
    expect((await run('deploy --plan')).out).toContain('settings were changed after the active deployment')
    expect((await run('env-groups show shared')).out).toMatch(/LEVEL\s+info/)
    expect((await run('env-groups history shared')).out).toMatch(/3\s+\+LEVEL/)
    expect((await run('env-groups rollback shared 2')).code).toBe(0)
    expect((await run('env-groups show shared')).out).toMatch(/LEVEL\s+debug/)
    expect((await run('env-groups delete shared --yes')).err).toContain('is attached to grouped')
    expect((await run('env-groups attach --app grouped')).code).toBe(0)
    expect((await run('env-groups delete shared --yes')).code).toBe(0)
  })

  it('have a history of versions to roll back to, like the variables of an app', async () => {
    // In `npm test`, which skips the test above, the app does not exist yet.
    await user.post('/v1/apps', { name: 'grouped', git_url: '' })
    for (const value of ['one', 'two']) await run(`env set NAME=${value} --plain --app grouped`)
    expect((await run('env history --app grouped')).out).toMatch(/2\s+\+NAME[^]*1\s+\+NAME/)
    expect((await run('env rollback 1 --app grouped')).code).toBe(0)
    expect((await run('env list --app grouped')).out).toMatch(/NAME\s+one/)
    expect((await run('env history --app grouped')).out).toMatch(/3\s+\+NAME\s+of 1/)
  })
})
