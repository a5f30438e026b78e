import { expect, it } from 'vitest'
import { programsPath } from '../lib/vm-programs.ts'
import { loadModel } from './load.ts'
import { stackOf } from './stack.ts'

async function plan(text: string) {
  const model = await loadModel(
    ['compose.yaml'],
    { read: async path => (path === 'compose.yaml' ? text : undefined) },
    () => undefined,
  )
  const { services, findings, volumes } = await stackOf(
    model,
    { read: async () => undefined },
    { name: 's', profiles: [] },
  )
  const programs = services.map(({ app }) => {
    const file = app.files?.find(({ path }) => path === programsPath)
    return file ? JSON.parse(new TextDecoder().decode(file.content)) : undefined
  })
  const refused = findings.filter(({ level }) => level === 'unsupported').map(({ message }) => message)
  return { services, findings, volumes, programs, refused }
}

const shared = `
services:
  worker:
    image: i
    command: [work, "a b"]
    environment: { ROLE: worker, URL: u, ONLY: w }
    volumes: ["data:/data", "own:/own"]
    depends_on: [db, web]
    restart: on-failure
    mem_limit: 1g
  web:
    image: i
    ports: ["80"]
    environment: { ROLE: web, URL: u, WEB: "1" }
    volumes: ["data:/data"]
    depends_on: { prepare: { condition: service_completed_successfully }, db: { condition: service_healthy } }
  prepare:
    image: i
    entrypoint: [/bin/sh, -c]
    command: ["touch /data/a"]
    environment: { URL: u }
    volumes: ["data:/data"]
  db: { image: j, environment: { PEER: "http://worker:90/x", NAME: worker } }
  proxy: { image: k, depends_on: [worker] }
volumes: { data: , own: }
`

it('services with the same image that share a writable volume run in one VM', async () => {
  const { services, programs, refused, findings } = await plan(shared)
  expect(refused).toEqual([])
  expect(services.map(({ name }) => name)).toEqual(['db', 'web', 'proxy'])
  const [db, web] = services.map(({ app }) => app)
  expect(web).toMatchObject({
    kind: 'web',
    env: { ROLE: 'web', URL: 'u', WEB: '1' },
    processes: { web: { command: [], memory_mib: 2048, vcpus: 3 } },
    volumes: [
      { name: 's-data', mount: '/data' },
      { name: 's-own', mount: '/own' },
    ],
  })
  expect(programs[1]).toEqual({
    programs: [
      {
        name: 'worker',
        arguments: ['work', 'a b'],
        environment: { ROLE: 'worker', ONLY: 'w', WEB: null },
        restart: 'on-failure',
      },
      {
        name: 'prepare',
        command: ['/bin/sh', '-c', 'touch /data/a'],
        environment: { ROLE: null, WEB: null },
        before: true,
      },
    ],
    names: ['worker', 'prepare'],
  })
  // `worker` is replaced by `web` where it is a hostname, but not where it is any other word.
  expect(db?.env).toEqual({ PEER: 'http://web:90/x', NAME: 'worker' })
  const said = findings.map(({ field, message }) => `${field} ${message}`).join('\n')
  expect(said).toMatch(/services\.worker runs in the VM of web[^]*no app worker/)
  expect(said).toContain('services.prepare runs in the VM of web before it')
  expect(said).toContain('in PEER: it is replaced by web')
})

const two = (one: string, other: string) => `
services:
  a: { image: i, volumes: ["d:/d"], ${one} }
  b: { image: i, volumes: ["d:/d"], ${other} }
  c: { image: j, entrypoint: [run, "http://b:1/"] }
volumes: { d: , e: }
`
it.each([
  [two('ports: [80]', 'ports: [90]'), 'only one of them can get HTTP requests'],
  [two('ports: [80]', 'deploy: { replicas: 2 }'), 'only one VM can use it'],
  [
    two('environment: [A=1]', 'environment: [A=2], x-mote: { secrets: [A] }'),
    'the secret A must be a variable of both',
  ],
  [two('tty: true', 'tty: true').replace('"d:/d"], tty: true }\n  c', '"d:/d/e"] }\n  c'), 'one is within the other'],
  [two('tty: true', 'volumes: ["d:/d"]').replace(/volumes: \["d:\/d"\], volumes/, 'volumes'), 'has the address of b'],
  [
    'services: { a: { image: i, volumes: ["d:/d"] }, b: { image: j, volumes: ["d:/d"] } }\nvolumes: { d: }',
    'of a: only one VM',
  ],
])('services that cannot share a VM are refused with the reason: %#', async (text, reason) => {
  expect((await plan(text)).refused.join('\n')).toContain(reason)
})

it('services that only read a shared volume remain separate apps', async () => {
  const { services, refused } = await plan(
    two('tty: true', 'tty: true').replaceAll('d:/d', 'd:/d:ro').replace('http://b:1/', ''),
  )
  expect([services.length, refused]).toEqual([3, []])
})

it('services share a volume through volumes_from and run in one VM', async () => {
  const text =
    'services: { a: { image: i, volumes: ["d:/d"] }, b: { image: i, command: x, volumes_from: [a] } }\nvolumes: { d: }'
  const { programs, refused } = await plan(text)
  expect([programs, refused]).toEqual([[{ programs: [{ name: 'b', arguments: ['x'] }], names: ['b'] }], []])
})

it.each([
  ['condition: service_completed_successfully', 'tty: true'],
  ['condition: service_started', 'restart: "no"'],
])(
  'a service with another image that prepares a volume runs to completion before the service that uses the volume: %s',
  async (condition, lines) => {
    const { services, refused } = await plan(`
services:
  app: { image: i, ports: ["80"], volumes: ["d:/d"], depends_on: { init: { ${condition} } } }
  init: { image: busybox, command: chown -R 1000 /d, volumes: ["d:/d"], ${lines} }
volumes: { d: }
`)
    expect(refused).toEqual([])
    expect(services).toMatchObject([
      { name: 'init', isTask: true, app: { kind: 'worker', processes: { web: { restart: 'never' } } } },
      { name: 'app', isTask: false },
    ])
  },
)

it('a volume with two mount points is mounted at the first one, and the second one becomes a symbolic link', async () => {
  const { services, programs, refused } = await plan(
    'services: { a: { image: i, volumes: ["d:/d", "d:/srv/d"] } }\nvolumes: { d: }',
  )
  expect(refused).toEqual([])
  expect(services[0]?.app.volumes).toMatchObject([{ name: 's-d', mount: '/d' }])
  expect(programs).toEqual([{ programs: [], links: [{ path: '/srv/d', to: '/d' }] }])
})
