import { describe, expect, it } from 'vitest'
import { fixedDockerfile } from './dockerfile.ts'
import { faultText } from './faults.ts'
import { loadModel } from './load.ts'
import { splitWords } from './reader.ts'
import { stackOf } from './stack.ts'

/** Plans a stack from compose files, given by name; compose.yaml is the main one. */
async function plan(
  given: string | Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>> = {},
  profiles: string[] = [],
) {
  const texts: Readonly<Record<string, string>> = typeof given === 'string' ? { 'compose.yaml': given } : given
  const files = { read: async (path: string) => (Object.hasOwn(texts, path) ? texts[path] : undefined) }
  const main = Object.keys(texts).filter(path => /^compose(\.\w+)?\.yaml$/.test(path))
  const model = await loadModel(main, files, name => (Object.hasOwn(env, name) ? env[name] : undefined))
  return stackOf(model, files, { name: 'shop', profiles })
}

/** Returns a compose file with the service `a`, which has these lines. */
const service = (lines: string, more = '') =>
  `services:\n  a:\n    image: i\n${lines
    .split('\n')
    .map(line => `    ${line}\n`)
    .join('')}${more}`
const first = async (lines: string, more = '') => {
  const { services } = await plan(service(lines, more))
  const app = services[0]!.app
  return { ...app, web: app.processes.web }
}

it("Dockerfile and build arguments of a repository become inputs of the app's build", async () => {
  const { services } = await plan(
    'services:\n  a:\n    build: { context: "https://github.com/a/b.git#main", dockerfile: ./docker/web, args: { V: 1 } }\n',
  )
  expect(services[0]?.app).toMatchObject({
    build: { repository: 'https://github.com/a/b.git', branch: 'main' },
    inputs: { dockerfile: 'docker/web', args: { V: '1' }, env: [], secrets: [] },
  })
})

describe('a service of a compose file', () => {
  it.each([
    [
      'the first HTTP port',
      'ports: ["5432:5432", "127.0.0.1:80:8000/tcp", 9000]',
      { kind: 'web', web: { port: 8000 } },
    ],
    ['a port as a map', 'ports: [{ target: 3000, published: "80" }]', { kind: 'web', web: { port: 3000 } }],
    ['a port of a variable', 'ports: ["${P:-90}:${P:-90}"]', { kind: 'web', web: { port: 90 } }],
    ['no HTTP port', 'ports: ["6379:6379"]', { kind: 'worker', web: { port: 8080 } }],
    ['no port', 'expose: ["3000"]', { kind: 'worker' }],
    ['udp only', 'ports: ["3000:3000/udp"]', { kind: 'worker' }],
    ['a port of x-mote', 'ports: [80, 90]\nx-mote: { http: 90 }', { web: { port: 90 } }],
    ['no port of x-mote', 'ports: [80]\nx-mote: { http: false }', { kind: 'worker' }],
    [
      'a command as text',
      `command: run --name "a b" 'c'`,
      { web: { command: [], arguments: ['run', '--name', 'a b', 'c'] } },
    ],
    ['a command as a list', 'command: ["run", "$$HOME"]', { web: { arguments: ['run', '$HOME'] } }],
    ['an entrypoint', 'entrypoint: /start\ncommand: [x]', { web: { command: ['/start', 'x'] } }],
    [
      'variables as a map',
      'environment: { A: 1, B: 010, C: true, D: "x=y", E: }',
      { env: { A: '1', B: '010', C: 'true', D: 'x=y' } },
    ],
    ['variables as a list', 'environment: [A=1, B=, C]', { env: { A: '1', B: '' } }],
    ['a variable with dots', 'environment: [discovery.type=single-node]', { env: { 'discovery.type': 'single-node' } }],
    ['keys of prototypes', 'environment: { __proto__: x, constructor: y }', { env: { constructor: 'y' } }],
    [
      'limits',
      'deploy: { replicas: 2, resources: { limits: { cpus: "1.5", memory: 600M } } }',
      { web: { vcpus: 2, memory_mib: 1024, replicas: 2 } },
    ],
    ['limits of version 2', 'mem_limit: 2gb\ncpus: 3\nscale: 3', { web: { vcpus: 3, memory_mib: 2048, replicas: 3 } }],
    [
      'a health check',
      'ports: ["80"]\nhealthcheck: { test: ["CMD", "curl", "-f", "http://localhost/up?a=b"] }',
      { web: { health: { path: '/up?a=b' } } },
    ],
    [
      'a health check with a port',
      'ports: ["3000"]\nhealthcheck: { test: "wget -q http://127.0.0.1:3000/ok || exit 1" }',
      { web: { health: { path: '/ok' } } },
    ],
    [
      'a path of x-mote',
      'ports: [80]\nx-mote: { health: /h, scale_to_zero: true }',
      { web: { health: { path: '/h' }, scale_to_zero: true } },
    ],
    [
      'a repository with another Dockerfile and arguments',
      'build: { context: "https://github.com/a/b.git#main", dockerfile: docker/web, args: { A: 1, B: } }',
      {
        build: { repository: 'https://github.com/a/b.git', branch: 'main' },
        inputs: { dockerfile: 'docker/web', args: { A: '1' } },
      },
    ],
    ['a merged anchor', 'environment: &e { A: 1 }\nx-b: { <<: *e }', { env: { A: '1' } }],
  ])('is mapped to an app, with %s', async (_, lines, expected) => expect(await first(lines)).toMatchObject(expected))

  it.each([
    [
      'short',
      'volumes: ["data:/var/lib/x/"]',
      { name: 'shop-data', mount: '/var/lib/x', size_mib: 1024, read_only: false },
    ],
    ['read-only', 'volumes: ["data:/d:ro"]', { read_only: true }],
    ['long', 'volumes: [{ type: volume, source: data, target: /d }]', { mount: '/d' }],
    ['sized', 'volumes: ["big:/d"]', { name: 'shop-big', size_mib: 2048 }],
    ['external', 'volumes: ["ext:/d"]', { name: 'ext' }],
    ['named', 'volumes: ["own:/d"]', { name: 'mine' }],
  ])('mounts a volume: %s', async (_, lines, expected) => {
    const more =
      'volumes: { data: , big: { driver_opts: { size: 2g } }, ext: { external: true }, own: { name: mine } }\n'
    expect((await first(lines, more)).volumes).toMatchObject([expected])
  })

  it.each([
    ['volumes: ["./a:/a"]', 4, 'only files and small folders below that of the compose file are copied'],
    ['volumes: ["/var/run/docker.sock:/var/run/docker.sock"]', 4, 'there is no Docker'],
    ['volumes: ["d:/etc/passwd"]', 4, 'belongs to the system'],
    ['tty: true\nnetwork_mode: none', 5, 'a service has its own address'],
    ['tty: true\nnetwork_mode: service:b', 5, 'a service has its own address'],
    ['devices: ["/dev/kvm"]', 4, 'no devices'],
    ['gpus: all', 4, 'no GPUs'],
    ['platform: windows', 4, 'VMs run Linux'],
    ['pid: host', 4, 'do not share processes'],
    ['environment: { a b: 1 }', 4, 'is not a name of a variable'],
    ['volumes: ["d:/d"]\nscale: 2', 5, 'only one VM'],
    ['deploy: { resources: { reservations: { devices: [{ capabilities: [gpu] }] } } }', 4, 'no devices'],
    ['build: { context: ., secrets: [x] }', 4, 'builds of compose files get no secrets'],
    ['build: { context: ., dockerfile: ../Dockerfile }', 4, 'must be in the folder'],
    ['build: "https://github.com/a/b.git#main:sub"', 4, 'built from its top'],
    ['volumes_from: ["container:b"]', 4, 'containers outside of the file'],
  ])('is reported as unsupported if it has %s', async (lines, line, message) => {
    const { findings } = await plan(service(lines, 'volumes: { d: }\n'))
    const found = findings.filter(one => one.level === 'unsupported')
    expect(found).toMatchObject([{ at: { file: 'compose.yaml', line }, message: expect.stringContaining(message) }])
  })

  it.each([
    ['user: root', 'user of the image'],
    ['privileged: true', 'kernel of its own'],
    ['ports: ["80", "5432"]', 'other services reach it as a:5432'],
    ['healthcheck: { test: pg_isready }', 'two seconds'],
    ['ports: [80]\nhealthcheck: { test: [CMD, curl, "http://localhost:81/"] }', 'GET / on port 80'],
    ['volumes: [/data]', 'Name the volume'],
    ['volumes: ["/etc/localtime:/etc/localtime:ro"]', 'TZ'],
    ['volumes: ["d:/etc/timezone:ro"]\nx-b: 1', 'TZ'],
    ['mem_limit: 8g', '4096 MiB'],
    ['network_mode: host', 'as a:<port>'],
    ['volumes: ["/dev/urandom:/dev/random:ro"]', 'the VM has its own'],
    ['tmpfs: /tmp', 'on the disk of the VM'],
    ['networks: { n: { aliases: [b] } }', 'only its own name'],
    ['environment: { A: "${NOT_SET}" }', 'is not set'],
    ['build: .\nvolumes: ["./src:/app/src"]', 'the image has what its Dockerfile copies'],
  ])('is reported as working differently if it has %s', async (lines, message) => {
    const { findings } = await plan(service(lines))
    expect(findings).toMatchObject([{ level: 'differs', message: expect.stringContaining(message) }])
  })

  it.each([
    ['restart: always', {}],
    ['restart: unless-stopped', {}],
    ['restart: "no"', { restart: 'never' }],
    ['restart: on-failure', { restart: 'on-failure' }],
    ['restart: on-failure:3', { restart: 'on-failure', max_restarts: 3 }],
    ['deploy: { restart_policy: { condition: none } }', { restart: 'never' }],
    ['deploy: { restart_policy: { condition: any, max_attempts: 7 } }', { max_restarts: 7 }],
    [
      'deploy: { restart_policy: { condition: on-failure, max_attempts: 900 } }',
      { restart: 'on-failure', max_restarts: 100 },
    ],
  ])('is restarted after an exit according to "%s"', async (lines, expected) => {
    const { services, findings } = await plan(service(lines))
    const { restart, max_restarts } = services[0]?.app.processes.web ?? {}
    expect(JSON.parse(JSON.stringify({ restart, max_restarts }))).toEqual(expected)
    expect(findings).toEqual([])
  })

  it('may have keys without an effect, which are not reported', async () => {
    const { findings } = await plan(
      service(
        'labels: { a: b }\ncontainer_name: x\nrestart: always\nlogging: {}\nprivileged: false\ndevices: []\nnetworks: [n]',
        'networks: { n: }\n',
      ),
    )
    expect(findings).toEqual([])
  })
})

describe('an invalid compose file', () => {
  it.each([
    ['', 'compose.yaml:1:1: The file is empty'],
    ['a: [', 'is not valid YAML'],
    ['a: 1\n---\nb: 1', 'must have one document'],
    ['services: {}', 'has no service'],
    ['- a', 'must be a map'],
    ['volumes: {}', 'services is required'],
    ['services: { a: {} }', '1:13: services.a needs an image or a build'],
    [service('prots: [80]'), '4:5: services.a.prots is unknown. Did you mean "ports"?'],
    [service('ports: { a: 1 }'), '4:5: services.a.ports must be a list'],
    [service('ports: ["x"]'), 'services.a.ports[0] must be a port'],
    [service('ports: ["99999"]'), 'must be a port'],
    [service('mem_limit: much'), 'must be a size'],
    [service('cpus: much'), 'must be a number'],
    [service('depends_on: [b]'), '4:18: services.a.depends_on[0] names the service b'],
    [service('depends_on: [a]'), 'depends on itself'],
    [service('volumes: ["d:/d"]'), 'which is not in "volumes"'],
    [service('env_file: x.env'), 'names x.env, which does not exist'],
    [service('x-mote: { prot: 1 }'), 'x-mote may have'],
    [service('image: j'), '4:5: The key "image" is in its map twice'],
    [service('environment: { A: "${B:?set it}" }'), '4:20: value needs the variable B: set it'],
    [service('environment: { A: "$" }'), 'write "$$"'],
    [service('environment: { A: "${B" }'), 'without "}"'],
    [service('command: "a \'b"'), 'a quote that is not closed'],
    [service('extends: { service: b }'), 'names the service b'],
    [service('extends: a'), 'in a circle'],
    ['include: [b.yaml]\nservices: {}', 'b.yaml does not exist'],
    ['include: ["https://x.example/c.yaml"]\nservices: {}', 'remote files are not read'],
    ['servcies: {}\nservices: { a: { image: i } }', 'servcies is unknown. Did you mean "services"?'],
    ['services: { a_b: { image: i }, a-b: { image: i } }', 'would both be the app a-b'],
  ])('is refused: %j', async (text, message) => {
    await expect(plan(text)).rejects.toMatchObject({ name: 'Invalid', message: expect.stringContaining(message) })
  })

  it.each([
    ['10 MB', 'a: x\n'.repeat(2_000_000), 'exceeds the limit of 256 KiB'],
    [
      'an alias bomb',
      `${Array.from({ length: 30 }, (_, n) => `x${n}: &x${n} [${n ? `*x${n - 1},*x${n - 1}` : '1'}]`).join('\n')}\nservices: {}`,
      'with all aliases expanded',
    ],
    ['an endless alias', 'services: &a { b: *a }', 'no anchor'],
    ['nested lists', '['.repeat(100_000), 'nested too deeply'],
    [
      'nested maps',
      `${Array.from({ length: 60 }, (_, n) => `${' '.repeat(n)}a:`).join('\n')} 1`,
      'nested more than 50',
    ],
    ['endless variables', service(`environment: { A: "${'${A:-'.repeat(100)}" }`), 'nests more than 10'],
    ['many files', 'include: [compose.yaml]\nservices: {}', 'in a circle'],
  ])('is refused within five seconds: %s', async (_, text, message) => {
    const start = performance.now()
    await expect(plan(text)).rejects.toThrow(message)
    expect(performance.now() - start).toBeLessThan(5000)
  })

  it('is reported with one line per error', async () => {
    const faults = await plan(service('ports: [x]\ncpus: y\nprots: z')).catch(cause => cause.faults)
    expect(faults.map(faultText)).toEqual([
      'compose.yaml:4:13: services.a.ports[0] must be a port such as "8080:80"',
      'compose.yaml:5:5: services.a.cpus must be a number of at least 0',
      'compose.yaml:6:5: services.a.prots is unknown. Did you mean "ports"?',
    ])
  })
})

describe('variables in compose files', () => {
  const value = async (text: string, env: Record<string, string>) =>
    (
      await plan(
        { 'compose.yaml': service(`environment: { V: '${text}' }`), '.env': 'D=dot\nQ="a\\n$$b ${D}" # c\nS=\'$D\'\n' },
        env,
      )
    ).services[0]?.app.env.V
  it.each([
    ['$A', { A: 'x' }, 'x'],
    ['${A}b', { A: 'x' }, 'xb'],
    ['${A:-d}', { A: '' }, 'd'],
    ['${A-d}', { A: '' }, ''],
    ['${A-d}', {}, 'd'],
    ['${A:+d}', { A: 'x' }, 'd'],
    ['${A+d}', {}, ''],
    ['${A:-${B:-c}}', {}, 'c'],
    ['${A:-${B:?no}}', { A: 'x' }, 'x'],
    ['$$A ${D}', {}, '$A dot'],
    ['${Q}|${S}', {}, 'a\n$b dot|$D'],
    ['${D}', { D: 'env' }, 'env'],
  ])('are replaced in the value %s', async (text, env, expected) =>
    expect(await value(text, env as Record<string, string>)).toBe(expected),
  )

  it('come from env_file, and "environment" overrides them', async () => {
    const files = {
      'compose.yaml': service('env_file: [a.env, { path: b.env, required: false }]\nenvironment: { B: own }'),
      'a.env': 'A=1\nB=2\nC\n',
    }
    expect((await plan(files, { C: 'outer' })).services[0]?.app.env).toEqual({ A: '1', B: 'own', C: 'outer' })
  })
})

describe('a stack of several files', () => {
  it('is merged from overrides, extended services and includes', async () => {
    const { services } = await plan({
      'compose.yaml': `include: [sub/part.yaml]\n${service('command: [x]\nports: ["80"]\nenvironment: [A=1, B=2]\ndepends_on: [base]')}`,
      'compose.prod.yaml':
        'services:\n  a:\n    command: [y]\n    environment: { B: 3 }\n    extends: { file: base.yaml, service: common }\n',
      'base.yaml': 'services: { common: { image: c, mem_limit: 1g } }',
      'sub/part.yaml': 'services:\n  base:\n    build: { context: ./app, dockerfile: D, args: [V=1], target: t }\n',
    })
    expect(services.map(({ name }) => name)).toEqual(['base', 'a'])
    expect(services[0]).toMatchObject({
      app: { build: { root: 'sub/app' } },
      build: { dockerfile: 'D', args: { V: '1' }, target: 't' },
    })
    expect(services[1]?.app).toMatchObject({
      env: { A: '1', B: '3' },
      processes: { web: { arguments: ['y'], port: 80, memory_mib: 1024 } },
    })
  })

  it('only has the services of the selected profiles', async () => {
    const text = 'services: { a: { image: i }, b: { image: i, profiles: [debug] } }'
    expect((await plan(text)).services).toHaveLength(1)
    expect((await plan(text, {}, ['debug'])).services).toHaveLength(2)
  })
})

describe('a service that others wait for until it has completed', () => {
  const text = (image: string) => `services:
  migrate: { image: ${image}, command: [run, migrate], restart: "no" }
  a: { image: i, depends_on: { migrate: { condition: service_completed_successfully } } }
`
  it('becomes the release command of a waiting service with the same image', async () => {
    const { services, findings } = await plan(text('i'))
    expect(services).toMatchObject([{ name: 'a', app: { release: { command: ['run', 'migrate'] } } }])
    expect(findings).toMatchObject([{ level: 'differs', message: expect.stringContaining('release command') }])
  })
  it('becomes an app that is not restarted, if its image is another one', async () => {
    const { services, findings } = await plan(text('j'))
    expect(findings).toMatchObject([
      { level: 'differs', field: 'services.migrate', message: expect.stringContaining('runs to its end before') },
    ])
    const task = services.find(({ isTask }) => isTask)
    expect(task?.app).toMatchObject({ app: 'migrate', kind: 'worker', processes: { web: { restart: 'never' } } })
    expect(services.indexOf(task!)).toBe(0)
  })
})

it('two services with different images cannot share a writable volume', async () => {
  const text = (mode: string) =>
    `services: { a: { image: i, volumes: ["d:/d${mode}"] }, b: { image: j, volumes: ["d:/d${mode}"] } }\nvolumes: { d: }`
  expect((await plan(text(''))).findings).toMatchObject([
    { level: 'unsupported', message: expect.stringContaining('of a: only one VM') },
  ])
  expect((await plan(text(':ro'))).findings).toEqual([])
})

it('build arguments are written into the Dockerfile, and stages after the target are removed', () => {
  const text = 'ARG V=1\nFROM a:$V AS one\nRUN <<EOF\nARG V\nEOF\nARG V W="x y"\nFROM b AS two\nRUN x\n'
  expect(fixedDockerfile(text, { args: { V: '2"$' }, target: 'one' })).toBe(
    'ARG V="2\\"\\$"\nFROM a:$V AS one\nRUN <<EOF\nARG V\nEOF\nARG V="2\\"\\$"\nARG W="x y"',
  )
  expect(() => fixedDockerfile(text, { args: {}, target: 'none' })).toThrow('no stage none')
  expect(() => fixedDockerfile(text, { args: { V: 'a\nb' }, target: undefined })).toThrow('several lines')
})

it('a command line is split into words like a shell does', () => {
  expect(splitWords(`a  "b \\" c" 'd\\' e\\ f ""`)).toEqual(['a', 'b " c', 'd\\', 'e f', ''])
  expect(splitWords('a "b')).toBeUndefined()
})
