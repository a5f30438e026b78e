import { describe, expect, it } from 'vitest'
import { effectiveFile } from './defaults.ts'
import type { GivenFile } from './files.ts'
import { parseAppFile } from './parse.ts'
import { type AppState, isEmpty, planOf, planText, removes } from './plan.ts'

const fileOf = (text: string) => effectiveFile(parseAppFile(`app = "shop"\n${text}`))
const stateOf = (text: string, more: Partial<AppState> = {}): AppState => ({
  file: fileOf(text),
  secrets: [],
  volumeSizes: new Map(),
  isDeployed: true,
  isBehind: false,
  uploaded: undefined,
  staleWorkers: [],
  ...more,
})
const plan = (
  now: string,
  wanted: string,
  more: Partial<AppState> = {},
  options: Partial<Parameters<typeof planOf>[2]> = {},
) => planOf(fileOf(wanted), stateOf(now, more), options)
const keys = (made: ReturnType<typeof planOf>) => made.changes.map(({ kind, key }) => `${kind} ${key}`)

const image = '[build]\nimage = "a:1"\n'

describe('variables that a build or a file uses', () => {
  it.each([
    ['[build]\nenv = ["URL"]', 'build.env: there is no variable URL. Add it to [env]'],
    ['[build]\nenv = ["TOKEN"]', 'build.env: TOKEN is a secret, and arguments stay in the image.'],
    ['[build]\nsecrets = ["NPM"]', 'build.secrets: the app has no variable NPM. Set it: mote env set NPM=- --app shop'],
  ])('are refused with advice if they are missing or secret: %j', (text, message) => {
    expect(() => plan('', text, { secrets: ['TOKEN'] })).toThrow(message)
  })

  it('of a new app are refused with advice to create the app first', () => {
    const make = () => planOf(fileOf('[build]\nsecrets = ["NPM"]'), undefined, {})
    expect(make).toThrow('Set it: mote apps create shop, then mote env set NPM=- --app shop < file')
  })

  it('may be secrets of the app, and variables in the file', () => {
    const text = '[build]\nenv = ["URL"]\nsecrets = ["TOKEN"]\n[env]\nURL = "1"'
    expect(keys(plan('', text, { secrets: ['TOKEN'] }))).toEqual([
      'create build.env',
      'create build.secrets',
      'create env.URL',
    ])
  })

  it('are compared one by one, like all build inputs, and a change needs a new build', () => {
    const wanted = '[build]\ndockerfile = "web.Dockerfile"\nargs = { A = "2" }'
    const made = plan('[build.args]\nA = "1"\nB = "1"', wanted)
    expect(keys(made)).toEqual(['create build.dockerfile', 'change build.args.A', 'remove build.args.B'])
    expect(made.deploys).toEqual(['the settings change'])
  })

  it('the variables of a build may come from an environment group', () => {
    const text = '[build]\nenv = ["URL"]\nsecrets = ["TOKEN"]'
    const groupVariables = [
      { name: 'URL', isSecret: false },
      { name: 'TOKEN', isSecret: true },
    ]
    expect(keys(plan('', text, { groupVariables }))).toEqual(['create build.env', 'create build.secrets'])
    expect(() => plan('', '[build]\nenv = ["TOKEN"]', { groupVariables })).toThrow('TOKEN is a secret')
    expect(() => plan('', '[build]\nenv = ["URL"]', { groupVariables, secrets: ['URL'] })).toThrow('URL is a secret')
  })

  it('must exist if they are the content of a file', () => {
    const text = '[[files]]\npath = "/run/key"\nsecret = "KEY"'
    expect(() => plan('', text)).toThrow('files (/run/key): the app has no variable KEY. Set it: mote env set KEY=-')
    expect(keys(plan('', text, { secrets: ['KEY'] }))).toEqual(['create files./run/key'])
  })

  it("cause a new build after a secret was changed, which the plan only knows from the time of the app's last change", () => {
    const text = '[build]\nsecrets = ["TOKEN"]'
    const made = plan(text, text, { secrets: ['TOKEN'], isBehind: true })
    expect(made.deploys).toEqual(['settings were changed after the active deployment'])
  })
})

describe('files of an app', () => {
  const given = (path: string, more: Partial<GivenFile> = {}): GivenFile => ({ path, mode: '0644', ...more })
  const planned = (now: readonly GivenFile[], wanted: readonly GivenFile[]) =>
    planOf({ ...fileOf(''), files: wanted }, { ...stateOf(''), file: { ...fileOf(''), files: now } }, {})

  it('are compared by content and mode, and a change needs a new version', () => {
    const now = [given('/a', { sha256: '1' }), given('/b', { sha256: '2' }), given('/c', { sha256: '3' })]
    const wanted = [
      given('/a', { sha256: '1' }),
      given('/b', { sha256: '0' }),
      given('/c', { sha256: '3', mode: '0600' }),
    ]
    const made = planned(now, wanted)
    expect(keys(made)).toEqual(['change files./b', 'change files./c'])
    expect(made.deploys).toEqual(['the settings change'])
    expect(keys(planned(now, []))).toEqual(['remove files./a', 'remove files./b', 'remove files./c'])
    expect(removes(planned(now, []))).toBe(true)
  })

  it('are kept if they are secret, and a secret file is only set once', () => {
    const secret = given('/s', { isSecret: true })
    expect(keys(planned([secret], []))).toEqual([])
    expect(keys(planned([secret], [given('/s', { isSecret: true, content: new Uint8Array(1) })]))).toEqual([])
    expect(keys(planned([], [given('/s', { isSecret: true, content: new Uint8Array(1) })]))).toEqual([
      'create files./s',
    ])
    expect(keys(planned([secret], [given('/s', { sha256: '1' })]))).toEqual(['change files./s'])
  })
})

describe('a plan for an app', () => {
  it('is empty if the app matches the file', () => {
    const same = plan(image, image)
    expect([isEmpty(same), planText(same)]).toEqual([true, 'No changes: shop matches the file.'])
  })

  it.each([
    ['a variable', '[env]\nA = "1"', '[env]\nA = "2"', ['change env.A'], true],
    ['a new variable', '', '[env]\nA = "1"', ['create env.A'], true],
    ['a removed variable', '[env]\nA = "1"', '', ['remove env.A'], true],
    ['the port', '', '[processes.web]\nport = 1', ['change processes.web.port'], true],
    ['the memory', '', '[processes.web]\nmemory_mib = 1024', ['change processes.web.memory_mib'], true],
    ['the replicas', '', '[processes.web]\nreplicas = 2', ['change processes.web.replicas'], false],
    ['scaling to zero', '', '[processes.web]\nscale_to_zero = true', ['change processes.web.scale_to_zero'], false],
    ['a domain', '', 'domains = ["a.b"]', ['create domains.a.b'], false],
    ['a removed domain', 'domains = ["a.b"]', '', ['remove domains.a.b'], false],
    ['a release command', '', '[release]\ncommand = ["a"]', ['create release.command'], true],
    ['no release command', '[release]\ncommand = ["a"]', '', ['remove release.command'], true],
    ['another order of groups', 'env_groups = ["a", "b"]', 'env_groups = ["b", "a"]', ['change env_groups'], true],
    ['no groups', 'env_groups = ["a"]', 'env_groups = []', ['change env_groups'], true],
    ['a file that does not mention groups', 'env_groups = ["a"]', '', [], false],
    ['a new job', '', '[jobs.a]\nschedule = "@daily"\ncommand = ["a"]', ['create jobs.a'], false],
    [
      'a job',
      '[jobs.a]\nschedule = "@daily"\ncommand = ["a"]',
      '[jobs.a]\nschedule = "@hourly"\ncommand = ["a"]\nretries = 2',
      ['change jobs.a.schedule', 'change jobs.a.retries'],
      false,
    ],
    ['a removed job', '[jobs.a]\nschedule = "@daily"\ncommand = ["a"]', '[jobs]', ['remove jobs.a'], false],
    ['a file that does not mention jobs', '[jobs.a]\nschedule = "@daily"\ncommand = ["a"]', '', [], false],
    ['a new service', '', '[services.a]\nport = 1883', ['create services.a'], false],
    ['a service', '[services.a]\nport = 1', '[services.a]\nport = 2', ['change services.a'], false],
    [
      'the TLS of a service',
      '[services.a]\nport = 1',
      '[services.a]\nport = 1\ntls = "sni"',
      ['change services.a'],
      false,
    ],
    [
      'TLS of a service set to its default',
      '[services.a]\nport = 1',
      '[services.a]\nport = 1\ntls = "none"',
      [],
      false,
    ],
    [
      'a renamed service with TLS',
      '[services.a]\nport = 1\ntls = "sni"',
      '[services.b]\nport = 1\ntls = "sni"',
      ['remove services.a', 'create services.b'],
      false,
    ],
    ['a removed service', '[services.a]\nport = 1', '[services]', ['remove services.a'], false],
    ['a file that does not mention services', '[services.a]\nport = 1', '', [], false],
    ['a new volume', '', '[[volumes]]\nname = "v"', ['create volumes.v'], true],
    ['a removed volume', '[[volumes]]\nname = "v"', '', ['remove volumes.v'], false],
    [
      'a larger volume',
      '[[volumes]]\nname = "v"',
      '[[volumes]]\nname = "v"\nsize_mib = 2048',
      ['change volumes.v.size_mib'],
      false,
    ],
    [
      'a moved volume',
      '[[volumes]]\nname = "v"',
      '[[volumes]]\nname = "v"\nmount = "/v"',
      ['change volumes.v.mount'],
      true,
    ],
    [
      'no autoscaling',
      '[processes.web.autoscaling]\nmax_replicas = 3',
      '',
      [
        'remove processes.web.autoscaling.max_replicas',
        'remove processes.web.autoscaling.cpu_percent',
        'remove processes.web.autoscaling.memory_percent',
      ],
      false,
    ],
  ])(
    'lists the changes for %s, and deploys a new version only if running VMs cannot apply them',
    (what, now, wanted, expected, deploys) => {
      const before = /^(domains|env_groups)/.test(now) ? `${now}\n${image}` : `${image}${now}`
      const after = /^(domains|env_groups)/.test(wanted) ? `${wanted}\n${image}` : `${image}${wanted}`
      const made = plan(before, after)
      expect(keys(made)).toEqual(expected)
      expect(made.deploys).toEqual(deploys ? ['the settings change'] : [])
      expect(removes(made)).toBe(
        expected.some(one => /^remove (env|jobs|services|volumes|domains)/.test(one)) || what === 'no groups',
      )
    },
  )

  it('deploys a new version for another image, a changed folder or any repository', () => {
    expect(keys(plan(image, '[build]\nimage = "a:2"'))).toEqual(['change build'])
    expect(plan('', '', { uploaded: 'sha256:1' }, { uploaded: 'sha256:2' }).deploys).toEqual(['the folder changed'])
    expect(plan('', '', { uploaded: 'sha256:1' }, { uploaded: 'sha256:1' }).deploys).toEqual([])
    const repository = '[build]\nrepository = "https://a/b"'
    expect(plan(repository, repository).deploys).toEqual(['a repository is built at its newest commit'])
  })

  it('deploys a new version if settings were changed after the active one was created, if there is none, or if --force is given', () => {
    expect(plan(image, image, { isBehind: true }).deploys).toHaveLength(1)
    expect(plan(image, image, { isDeployed: false }).deploys).toEqual(['the app has no version yet'])
    expect(plan(image, image, {}, { asked: '--force' }).deploys).toEqual(['--force is given'])
  })

  it('creates an app that does not exist with all its parts', () => {
    const made = planOf(fileOf('[env]\nA = "1"\n[[volumes]]\nname = "v"'), undefined, {})
    expect(keys(made)).toEqual(
      expect.arrayContaining(['create app', 'create build', 'create env.A', 'create volumes.v']),
    )
    expect(removes(made)).toBe(false)
  })

  it('deploys new versions of workers after that of the app, or alone if only workers change', () => {
    const worker = (more: string) => `${image}[processes.mails]\ncommand = ["node", "mails.js"]\n${more}`
    const added = plan(image, worker(''))
    expect([added.deploys, added.workers, keys(added)]).toEqual([
      [],
      ['mails'],
      expect.arrayContaining(['create processes.mails.command']),
    ])
    expect(plan(worker(''), worker('')).workers).toEqual([])
    expect(plan(worker(''), worker('replicas = 2')).workers).toEqual([])
    expect(plan(worker(''), worker('memory_mib = 1024')).workers).toEqual(['mails'])
    expect(plan(worker(''), worker(''), { staleWorkers: ['mails'] }).workers).toEqual(['mails'])
    expect(plan(worker(''), worker('[env]\nA = "1"'))).toMatchObject({
      workers: ['mails'],
      deploys: [expect.any(String)],
    })
    const removed = plan(worker(''), image)
    expect([keys(removed), removed.deploys, removed.workers, removes(removed)]).toEqual([
      ['remove processes.mails'],
      [],
      [],
      true,
    ])
  })

  it('refuses a variable that is a secret of the app, and a volume that would shrink', () => {
    expect(() => plan('', '[env]\nA = "1"', { secrets: ['A', 'B'] })).toThrow('A is a secret of the app')
    const volume = '[[volumes]]\nname = "v"\nsize_mib = 64'
    expect(() => plan(volume, volume, { volumeSizes: new Map([['v', 128]]) })).toThrow('Set size_mib = 128')
  })

  it('shortens long values and escapes control characters in its text', () => {
    const text = planText(plan(image, `${image}[env]\nA = "\\u001b[2J${'x'.repeat(100)}"`))
    expect(text).toContain('+ env.A  "\\u001b[2Jxxx')
    expect(text).not.toContain('x'.repeat(61))
  })
})
