/** Configs, secrets and bind mounts of a compose file become files of VMs. */
import { describe, expect, it } from 'vitest'
import type { FolderListing } from './load.ts'
import { loadModel } from './load.ts'
import { stackOf } from './stack.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

/** Plans the stack in compose.yaml, which is in a folder with the given files. */
async function plan(compose: string, disk: Readonly<Record<string, string>> = {}, env: Record<string, string> = {}) {
  const files = {
    read: async (path: string) => (path === 'compose.yaml' ? compose : undefined),
    bytes: async (path: string) => (Object.hasOwn(disk, path) ? bytes(disk[path] ?? '') : undefined),
    list: async (path: string): Promise<FolderListing | undefined> => {
      const isExecutable = (name: string) => name.endsWith('.sh')
      if (Object.hasOwn(disk, path))
        return { isFolder: false, entries: [{ path: '', isExecutable: isExecutable(path) }] }
      const folder = `${path.replace(/\/$/, '')}/`
      const below = Object.keys(disk).filter(name => name.startsWith(folder))
      const entries = below.map(name => ({ path: name.slice(folder.length), isExecutable: isExecutable(name) }))
      return below.length === 0 ? undefined : { isFolder: true, entries }
    },
  }
  const model = await loadModel(['compose.yaml'], files, name => env[name])
  return stackOf(model, files, { name: 'shop', profiles: [] })
}
const service = (lines: string, more = '') => `services:\n  a:\n    image: i\n    ${lines}\n${more}`
const filesOf = async (...given: Parameters<typeof plan>) => {
  const { services, findings } = await plan(...given)
  const files = (services[0]?.app.files ?? []).map(({ content, sha256, ...file }) => ({
    ...file,
    content: new TextDecoder().decode(content),
    hasDigest: sha256 !== undefined,
  }))
  return { files, findings: findings.map(({ level, at, message }) => `${level} ${at.line} ${message}`) }
}

describe('files of a service', () => {
  it('come from configs, with digests of their contents', async () => {
    const more = 'configs:\n  one: { file: ./a.conf }\n  two: { content: "b ${B}" }\n'
    const lines = 'configs: [one, { source: two, target: /etc/two, mode: 0440 }]'
    const { files } = await filesOf(service(lines, more), { 'a.conf': 'a' }, { B: '1' })
    expect(files).toEqual([
      { path: '/one', mode: '0444', content: 'a', hasDigest: true },
      { path: '/etc/two', mode: '0440', content: 'b 1', hasDigest: true },
    ])
  })

  it('come from secrets, which have no digests because their contents are never shown', async () => {
    const more = 'secrets:\n  one: { environment: TOKEN }\n  two: { file: ./key }\n'
    const { files } = await filesOf(
      service('secrets: [one, { source: two, target: tls.key }]', more),
      { key: 'k' },
      { TOKEN: 't' },
    )
    expect(files).toEqual([
      { path: '/run/secrets/one', mode: '0444', content: 't', isSecret: true, hasDigest: false },
      { path: '/run/secrets/tls.key', mode: '0444', content: 'k', isSecret: true, hasDigest: false },
    ])
  })

  it('come from bind mounts of files and small folders in the project', async () => {
    const disk = { 'nginx.conf': 'n', 'conf/a.yml': 'a', 'conf/sub/run.sh': 'b' }
    const lines = 'volumes: ["./nginx.conf:/etc/nginx/nginx.conf:ro", "./conf:/etc/conf/:ro"]'
    const { files, findings } = await filesOf(service(lines), disk)
    expect(files.map(({ path, mode, content }) => [path, mode, content])).toEqual([
      ['/etc/nginx/nginx.conf', '0644', 'n'],
      ['/etc/conf/a.yml', '0644', 'a'],
      ['/etc/conf/sub/run.sh', '0755', 'b'],
    ])
    expect(findings).toEqual([])
  })

  it('are copied even from a writable bind mount, which the plan reports as different', async () => {
    const { files, findings } = await filesOf(service('volumes: ["./a:/a"]'), { a: '1' })
    expect(files.map(({ path }) => path)).toEqual(['/a'])
    expect(findings).toEqual([expect.stringContaining('differs 4 is copied with each deployment')])
  })

  it("come from a single mounted file, but not from a mounted folder that is part of the service's build", async () => {
    const compose = 'services:\n  a:\n    build: .\n    volumes: ["./src:/src", "./a.conf:/etc/a.conf:ro"]\n'
    const { files, findings } = await filesOf(compose, { 'src/a.ts': '', 'a.conf': 'a' })
    expect(files.map(({ path }) => path)).toEqual(['/etc/a.conf'])
    expect(findings).toEqual([expect.stringContaining('the image has what its Dockerfile copies')])
  })

  it.each<[string, Record<string, string>, string]>([
    [
      'volumes: ["../up.conf:/a:ro"]',
      { '../up.conf': 'x' },
      'only files and small folders below that of the compose file',
    ],
    [
      'volumes: ["/etc/hosts:/a:ro"]',
      { '/etc/hosts': 'x' },
      'only files and small folders below that of the compose file',
    ],
    ['volumes: ["/srv/none:/a:ro"]', {}, 'only files and small folders below that of the compose file'],
    ['volumes: ["./a:/proc/a:ro"]', { a: 'x' }, 'cannot be at /proc/a: the path belongs to the system'],
    ['volumes: ["./big:/big:ro"]', { big: 'x'.repeat(600_000) }, 'has 1 files with 600000 bytes'],
    [
      'volumes: ["./d:/d:ro"]',
      Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`d/${n}`, ''])),
      'exceeds the limit of 64 files',
    ],
  ])('are not supported with %s', async (lines, disk, message) => {
    const { findings } = await filesOf(service(lines), disk)
    expect(findings).toEqual([expect.stringMatching(/^unsupported \d /)])
    expect(findings[0]).toContain(message)
  })

  it('may be given as "content" of a mount, a Coolify extension', async () => {
    const lines = 'volumes: [{ type: bind, source: ./a.conf, target: /etc/a.conf, content: "a: ${B}" }]'
    const { files, findings } = await filesOf(service(lines), {}, { B: '1' })
    expect(files.map(({ path, mode, content }) => [path, mode, content])).toEqual([['/etc/a.conf', '0644', 'a: 1']])
    expect(findings).toEqual([])
  })

  it.each([
    ['configs: [c]', '', '4:15: services.a.configs[0] names c, which is not in "configs"'],
    ['configs: [c]', 'configs:\n  c: { file: ./none }\n', '6:8: configs.c.file names none, which is not a file'],
    [
      'secrets: [c]',
      'secrets:\n  c: { environment: NONE }\n',
      '6:8: secrets.c.environment names NONE, which is not set',
    ],
    ['secrets: [c]', 'secrets:\n  c: {}\n', 'secrets.c needs a file, environment or content'],
  ])('are refused with %s and %j', async (lines, more, message) => {
    await expect(plan(service(lines, more))).rejects.toThrow(message)
  })

  it('are not supported if they come from an external secret', async () => {
    const { findings } = await filesOf(service('secrets: [c]', 'secrets:\n  c: { external: true }\n'))
    expect(findings).toEqual(['unsupported 6 is not supported: give its file, environment or content'])
  })
})

describe('a bind mount of a folder that does not exist', () => {
  it.each([
    ['./data:/data', 'shop-data', '/data'],
    ['./db/my_data/:/var/lib/x', 'shop-db-my-data', '/var/lib/x'],
    ['./conf.d:/etc/nginx/conf.d', 'shop-conf-d', '/etc/nginx/conf.d'],
    ['./.cache:/root/.cache', 'shop-cache', '/root/.cache'],
    ['/opt/shop/data:/data', 'shop-opt-shop-data', '/data'],
    ['~/shop:/data', 'shop-home-ada-shop', '/data'],
  ])('becomes a volume: %s', async (mount, name, target) => {
    const stack = await plan(service(`volumes: ["${mount}"]`), {}, { HOME: '/home/ada' })
    expect(stack.services[0]?.app.volumes).toEqual([{ name, mount: target, size_mib: 1024, read_only: false }])
    expect(stack.volumes).toEqual([{ name, sizeMib: 1024, isExternal: false }])
    expect(stack.findings).toMatchObject([{ level: 'differs', at: { line: 4 } }])
    expect(stack.findings[0]?.message).toContain(`does not exist or is empty: it becomes the volume ${name}`)
  })

  it('becomes one volume for all services, to which only one may write', async () => {
    const two = 'services:\n  a: { image: i, volumes: ["./d:/d"] }\n  b: { image: j, volumes: ["./d/:/d"] }\n'
    const { findings } = await plan(two)
    expect(findings.filter(({ level }) => level === 'unsupported')).toMatchObject([
      { field: 'services.b.volumes', message: expect.stringContaining('has the volume shop-d of a') },
    ])
  })

  it.each([
    './app.conf:/etc/app.conf',
    '/srv/none:/none:ro',
    '../up:/up',
    '~/shop:/data',
    '/proc/none:/p',
    '/run/none:/r',
    '/var/lib/docker/none:/d',
    '/:/host',
  ])('is refused if it looks like a file, cannot be written or belongs to the host: %s', async mount => {
    const { services, findings } = await plan(service(`volumes: ["${mount}"]`))
    expect(services[0]?.app.volumes).toEqual([])
    expect(findings).toMatchObject([{ level: 'unsupported', message: expect.stringContaining('only files and small') }])
  })
})
