// Not repeated on the distribution's PostgreSQL: this file tests the CLI, not the database.
/** `mote compose` as a process, against simulated hosts. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { describeInAll, itInAll } from '../support/all-examples.ts'
import { cliSystem } from '../support/cli-system.ts'

const { user, home, mote } = await cliSystem({ imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 200 })
const folder = join(home, 'shop')
await mkdir(folder)

vi.setConfig({ testTimeout: 60_000 })

const run = (words: string) => mote.run(words.split(' '), { cwd: folder })
const write = (text: string) => writeFile(join(folder, 'compose.yaml'), text)
const app = async (name: string) => (await user.get(`/v1/apps/${name}`)).body
const names = async () => (await user.get('/v1/apps')).body.map((one: { name: string }) => one.name).sort()
const deployments = async (name: string) => (await user.get(`/v1/apps/${name}/deployments`)).body.length

const stack = `services:
  web:
    image: oci:hello
    ports: ["8000:3000"]
    environment:
      DB: postgres://db:5432/shop
      URL: https://\${MOTE_HOST_WEB}/
      KEY: \${KEY:-hidden}
    depends_on: [db]
    x-mote: { secrets: [KEY] }
  db:
    image: oci:hello
    command: --verbose
    volumes: [data:/var/lib/data]
volumes:
  data: { driver_opts: { size: 64m } }
`

describe('mote compose', () => {
  it('plan shows the changes and makes none', async () => {
    await write(stack)
    const { code, out } = await run('compose plan')
    expect(code).toBe(0)
    expect(out).toMatch(/Plan for db:[^]*Plan for web:/)
    expect(out).toMatch(/\+ env\.KEY\s+"\(secret\)"/)
    expect(out).not.toContain('hidden')
    expect(await names()).toEqual([])
  })

  it('up changes nothing if the file has an unsupported setting, and names its line', async () => {
    await write(stack.replace('[data:/var/lib/data]', '["/var/run/docker.sock:/run/docker.sock"]'))
    const { code, err } = await run('compose up')
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(
        /compose\.yaml:14:\d+: services\.db\.volumes\[0\] is not supported: there is no Docker[^]*Nothing was/,
      ),
    ])
    expect((await run('compose plan')).code).toBe(1)
    expect(await names()).toEqual([])
  })

  it('up creates an app for each service, in the order of their dependencies', async () => {
    await write(stack)
    const { code, out, err } = await run('compose up')
    expect([code, out]).toEqual([0, expect.stringContaining('The stack shop runs:')])
    expect(err).toMatch(/Deploying db[^]*Deploying web/)
    expect(await app('web')).toMatchObject({ kind: 'web', port: 3000, stack: 'shop', command: [] })
    expect(await app('db')).toMatchObject({ kind: 'worker', stack: 'shop', arguments: ['--verbose'] })
    const { hostname } = await app('web')
    expect((await user.get('/v1/apps/web/env')).body).toMatchObject([
      { name: 'DB', value: 'postgres://db:5432/shop' },
      { name: 'KEY', value: null },
      { name: 'URL', value: `https://${hostname}/` },
    ])
    expect((await user.get('/v1/volumes')).body).toMatchObject([
      { name: 'shop-data', size_mib: 64, attachments: [{ mount_point: '/var/lib/data' }] },
    ])
  })

  it('up reports "No changes" when it is repeated', async () => {
    expect(await run('compose up')).toMatchObject({ code: 0, out: 'No changes: the stack shop matches the file.\n' })
    expect([await deployments('web'), await deployments('db')]).toEqual([1, 1])
  })

  it('up deploys only the service that changed', async () => {
    await write(stack.replace('/shop\n', '/other\n'))
    const { code, err } = await run('compose up')
    expect([code, err]).toEqual([0, expect.stringMatching(/~ env\.DB\s+.*shop" -> .*other"/)])
    expect([await deployments('web'), await deployments('db')]).toEqual([2, 1])
  })

  it('up deletes the app of a removed service only with --prune and confirmation', async () => {
    await write(`${stack.replace('volumes:\n  data', '  more:\n    image: oci:hello\nvolumes:\n  data')}`)
    expect(await run('compose up')).toMatchObject({ code: 0 })
    await write(stack)
    expect((await run('compose up')).out).toContain('kept without --prune: more')
    expect(await names()).toEqual(['db', 'more', 'web'])
    expect(await run('compose up --prune')).toMatchObject({ code: 1, err: expect.stringContaining('--yes') })
    expect(await run('compose up --prune --yes')).toMatchObject({ code: 0 })
    expect(await names()).toEqual(['db', 'web'])
  })

  it('up rejects a service whose name an app outside the stack has', async () => {
    await user.post('/v1/apps', { name: 'cache', git_url: '' })
    await write('services:\n  cache:\n    image: oci:hello\n')
    expect(await run('compose up')).toMatchObject({ code: 1, err: expect.stringContaining('The app cache exists') })
    await user.call('DELETE', '/v1/apps/cache')
    await write(stack)
  })

  it('down deletes the apps of the stack, and its volumes only with --volumes', async () => {
    expect(await run('compose down')).toMatchObject({ code: 1, err: expect.stringContaining('--yes') })
    expect(await run('compose down --yes')).toMatchObject({ code: 0, out: expect.stringMatching(/Deleted .*web/) })
    expect(await names()).toEqual([])
    expect((await user.get('/v1/volumes')).body).toMatchObject([{ name: 'shop-data' }])
    expect(await run('compose down --volumes --yes')).toMatchObject({ code: 0, out: 'Deleted shop-data.\n' })
    expect((await user.get('/v1/volumes')).body).toEqual([])
  })
})

describe('mote templates', () => {
  it('lists templates, and shows the compose file of one', async () => {
    expect((await run('templates list')).out).toMatch(/wordpress\s+websites/)
    expect((await run('templates show wordpress')).out).toMatch(/^x-template:\n[^]*\nservices:\n {2}app:/)
    expect(await run('templates show nothing')).toMatchObject({ code: 1, err: expect.stringContaining('There are: ') })
  })

  // Not in `npm test`: templates.test.ts covers this.
  itInAll('deploys a template with generated passwords; compose down --stack deletes it without a file', async () => {
    const words = ['templates', 'deploy', 'umami', '--name', 'stats', '--yes', '--set', 'SECRET=my secret', '--json']
    const { code, out } = await mote.run(words, { cwd: home })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toEqual({ stack: 'stats', generated: { DB_PASSWORD: expect.stringMatching(/^\w{32}$/) } })
    expect(await app('stats')).toMatchObject({
      kind: 'web',
      port: 3000,
      stack: 'stats',
      health_check_path: '/api/heartbeat',
    })
    expect(await app('stats-db')).toMatchObject({ kind: 'worker', stack: 'stats' })
    expect((await user.get('/v1/apps/stats/env')).body).toMatchObject([
      { name: 'APP_SECRET', value: null },
      { name: 'DATABASE_URL', value: null },
    ])
    expect(await mote.run(words, { cwd: home })).toMatchObject({
      code: 1,
      err: expect.stringContaining('The stack stats exists'),
    })
    const down = await mote.run('compose down --stack stats --volumes --yes'.split(' '), { cwd: home })
    expect(down).toMatchObject({ code: 0, out: expect.stringContaining('stats-db') })
    expect([await names(), (await user.get('/v1/volumes')).body]).toEqual([[], []])
  })

  it('names the values that a template needs', async () =>
    expect(await run('templates deploy valkey --set A=b')).toMatchObject({
      code: 1,
      err: expect.stringContaining('It asks for: PASSWORD'),
    }))
})

describe('mote launch', () => {
  it.each(['no-such-folder', 'compose.yaml'])(
    'of %s, which is not a folder, fails and explains the argument',
    async path => {
      await write('services: {}\n')
      expect(await mote.run(['launch', path, '--yes'], { cwd: folder })).toMatchObject({
        code: 1,
        err: expect.stringMatching(new RegExp(`/${path} is no folder\\. Run mote launch in the folder of an app`)),
      })
    },
  )

  // Not in `npm test`: `compose up` above and the terminal tests of `mote launch` in cli.test.ts cover this.
  itInAll('offers on a terminal to deploy the services of a compose file', async () => {
    await write('services:\n  solo:\n    image: oci:hello\n')
    const { code, out } = await mote.onTerminal(
      ['launch'],
      [
        [/Deploy the services of compose\.yaml/, 'y'],
        [/Apply this plan/, 'y'],
      ],
      folder,
    )
    expect([code, out]).toEqual([0, expect.stringContaining('The stack shop runs')])
    expect(await app('solo')).toMatchObject({ kind: 'worker', stack: 'shop' })
  })
})

// Not in `npm test`: test/stacks/stacks.test.ts covers files of stacks, and src/appfile/plan.test.ts changes of files.
describeInAll('files of a stack', () => {
  it('are copied into its apps; a changed file makes a new version, but a changed secret file does not', async () => {
    await mkdir(join(folder, 'conf'), { recursive: true })
    await writeFile(join(folder, 'conf', 'a.yml'), 'a: 1\n')
    await writeFile(join(folder, 'password'), 'a-long-password')
    const compose = `services:
  given:
    image: oci:hello
    configs: [{ source: motd, target: /etc/motd }]
    secrets: [password]
    volumes: ["./conf:/etc/given:ro"]
configs:
  motd: { content: hello }
secrets:
  password: { file: ./password }
`
    await write(compose)
    expect((await run('compose up --stack files --yes')).code).toBe(0)
    const files = async () => (await user.get('/v1/apps/given/files')).body
    expect(await files()).toMatchObject([
      { path: '/etc/given/a.yml', mode: '0644', secret: false },
      { path: '/etc/motd', mode: '0444', secret: false, size_bytes: 5 },
      { path: '/run/secrets/password', mode: '0444', secret: true, size_bytes: 15 },
    ])
    expect((await run('compose up --stack files --yes')).out).toContain('No changes')
    await writeFile(join(folder, 'conf', 'a.yml'), 'a: 2\n')
    await writeFile(join(folder, 'password'), 'another-password')
    const changed = await run('compose up --stack files --yes')
    expect(changed.out + changed.err).toContain('~ files./etc/given/a.yml')
    expect((await files())[2]).toMatchObject({ size_bytes: 15 })
    expect((await user.get('/v1/apps/given/deployments')).body).toHaveLength(2)
    expect((await run('compose down --stack files --yes')).code).toBe(0)
  })
})
