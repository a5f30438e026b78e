import { describe, expect, it } from 'vitest'
import { parseAppFile } from './parse.ts'
import { AppFileInvalid } from './toml.ts'

const faultsOf = (text: string) => {
  try {
    parseAppFile(text)
  } catch (cause) {
    if (cause instanceof AppFileInvalid) return cause.message.split('\n')
    throw cause
  }
  return []
}

const full = `
app = "shop"
project = "team-blue"
domains = ["www.example.com"]

[build]
root = "apps/shop"

[env]
LEVEL = "debug"

[processes.web]
port = 3000
vcpus = 2
memory_mib = 1024
replicas = 1
scale_to_zero = true
health = { path = "/health" }

[processes.web.autoscaling]
max_replicas = 3

[[volumes]]
name = "data"
mount = "/var/lib/shop"
read_only = true
`

describe('a valid file', () => {
  it("needs nothing but the app's name", () => expect(parseAppFile('app = "shop"')).toEqual({ app: 'shop' }))

  it('may have every key of the schema', () => {
    const { processes, volumes } = parseAppFile(full)
    expect(processes?.web).toMatchObject({ port: 3000, autoscaling: { max_replicas: 3 }, health: { path: '/health' } })
    expect(volumes).toEqual([{ name: 'data', mount: '/var/lib/shop', read_only: true }])
  })
})

describe('an invalid file', () => {
  it.each([
    ['not TOML', 'app = "shop"\nport = [1,\n', [/^mote\.toml:3:1: This is not valid TOML: /]],
    ['a text without its end', 'app = "shop\n', [/^mote\.toml:1:12: .* TOML: a text has no closing quotation mark$/]],
    [
      'a number and a truth value as variables',
      'app = "a"\n[env]\nA = 1\nB = true',
      [/^mote\.toml:3:1: env\.A must be text: write "1"$/, /4:1: env\.B must be text: write "true"$/],
    ],
    [
      'a schedule and a time zone that do not exist',
      'app = "a"\n[jobs.a]\nschedule = "61 * * * *"\ncommand = ["a"]\n' +
        '[jobs.b]\nschedule = "@daily"\ntime_zone = "Mars/Olympus"\ncommand = ["a"]',
      [/3:1: jobs\.a\.schedule is no cron schedule, such as /, /7:1: jobs\.b\.time_zone is no IANA time zone/],
    ],
    [
      'a fault in each of nineteen tables',
      `app = "a"\n${Array.from({ length: 19 }, (_, at) => `[jobs.j${at}]\nschedule = "@daily"\ncommand = ["a"]\noverlap = "x"`).join('\n')}`,
      Array.from({ length: 19 }, (_, at) => new RegExp(`jobs\\.j${at}\\.overlap must be one of`)),
    ],
    ['a key twice', 'app = "a"\napp = "b"', [/^mote\.toml:2:1: This is not valid TOML: .*redefine/]],
    ['no app', '[env]\nA = "b"', [/^mote\.toml:1:1: app is required$/]],
    [
      'an unknown key',
      'app = "a"\nregions = ["eu"]',
      [/^mote\.toml:2:1: regions is unknown\. The file may have: app, /],
    ],
    [
      'a typing error',
      'app = "a"\n\n[processes.web]\n  prot = 1',
      [/^mote\.toml:4:3: processes\.web\.prot is unknown\. Did you mean "port"\?$/],
    ],
    ['a typing error of a table', 'app = "a"\n[enviroment]', [/2:1: enviroment is unknown/]],
    [
      'a build argument and a secret of the same name, and a Dockerfile outside',
      'app = "a"\n[build]\ndockerfile = "../Dockerfile"\nargs = { A = "1" }\nsecrets = ["A"]',
      [/3:1: build\.dockerfile must be a path in the source/, /5:1: build\.secrets\S* A is in build\.args too$/],
    ],
    [
      'inputs of an image',
      'app = "a"\n[build]\nimage = "a:1"\nenv = ["A"]',
      [/4:1: build\.env cannot be combined with image, which is not built$/],
    ],
    [
      'files without a content, at a path of the kernel, and twice',
      'app = "a"\n[[files]]\npath = "/proc/a"\nsource = "a"\n[[files]]\npath = "/b"\n[[files]]\npath = "/b"\nsource = "../b"',
      [
        /3:1: files\[0\]\.path belongs to the system$/,
        /6:1: files\[1\]\.path needs either a source or a secret$/,
        /8:1: files\[2\]\.path \/b is in the file twice$/,
        /9:1: files\[2\]\.source must be below the folder of the file$/,
      ],
    ],
    ['another case', 'app = "a"\n[Build]\nroot = "."', [/2:1: Build is unknown\. Did you mean "build"\?/]],
    ['a number as text', 'app = "a"\nprocesses.web.port = "80"', [/2:1: processes\.web\.port must be a whole number$/]],
    [
      'a number out of range',
      'app = "a"\n[processes.web]\nport = 70000',
      [/3:1: processes\.web\.port must be at most 65535$/],
    ],
    [
      'a size that does not exist',
      'app = "a"\n[processes.web]\nmemory_mib = 700',
      [/3:1: .*one of 512, 1024, 2048, 4096$/],
    ],
    ['a name that is no host name', 'app = "My App"', [/1:1: app must have only lower-case letters/]],
    ['a variable that is a number', 'app = "a"\n[env]\nDEBUG = 1', [/3:1: env\.DEBUG must be text: write "1"$/]],
    [
      'a variable without a valid name',
      'app = "a"\n[env]\n1VAR = "1"',
      [/3:1: env\.1VAR is not a valid name: use letters/],
    ],
    ['the port as a variable', 'app = "a"\n[env]\nPORT = "1"', [/3:1: env\.PORT is set by the platform/]],
    [
      'a fault in the second volume',
      'app = "a"\n[[volumes]]\nname = "a"\n[[volumes]]\nname = "b"\nmount = "data"',
      [/6:1: volumes\[1\]\.mount must have a "\/" at the start$/],
    ],
    [
      'volumes at one place',
      'app = "a"\n[[volumes]]\nname = "a"\n[[volumes]]\nname = "b"',
      [/4:1: volumes\[1\]\.mount another volume is mounted at \/data$/],
    ],
    [
      'two VMs that write one volume',
      'app = "a"\nprocesses.web.replicas = 2\n[[volumes]]\nname = "a"',
      [/4:1: volumes\[0\]\.name only one VM can use a writable volume/],
    ],
    ['two sources', 'app = "a"\n[build]\nimage = "x"\nroot = "."', [/4:1: build\.root cannot be combined with image/]],
    [
      'a folder outside',
      'app = "a"\n[build]\nroot = "../b"',
      [/3:1: build\.root must be below the folder of the file/],
    ],
    ['a branch of nothing', 'app = "a"\n[build]\nbranch = "x"', [/3:1: build\.branch needs a repository/]],
    [
      'a maximum below the minimum',
      'app = "a"\n[processes.web]\nreplicas = 3\nautoscaling = { max_replicas = 2 }',
      [/4:1: processes\.web\.autoscaling\.max_replicas must be at least replicas \(3\)/],
    ],
    ['a worker without a program', 'app = "a"\n[processes.mails]', [/2:1: processes\.mails\.command is required$/]],
    [
      'a worker with a port',
      'app = "a"\n[processes.mails]\ncommand = ["x"]\nport = 1',
      [/4:1: processes\.mails\.port is unknown/],
    ],
    [
      'an empty program',
      'app = "a"\n[processes.mails]\ncommand = []',
      [/3:1: processes\.mails\.command must have a program$/],
    ],
    [
      'a worker with a bad name',
      'app = "a"\n[processes.Mails]\ncommand = ["x"]',
      [/2:1: processes\.Mails is not a valid name: use at most 20/],
    ],
    [
      'a worker with a long name',
      `app = "${'a'.repeat(38)}"\n[processes.mails]\ncommand = ["x"]`,
      [/2:1: .*at most 40 characters/],
    ],
    ['an attack on prototypes', 'app = "a"\n[__proto__]\nx = 1', [/This is not valid TOML/]],
    ['two faults', 'app = 1\n[processes.web]\nport = 0', [/1:1: app must be text/, /3:1: .*at least 1$/]],
    ['too many bytes', `app = "a"\n# ${'x'.repeat(65_536)}`, [/1:1: The file exceeds the limit of 64 KiB$/]],
  ])('is refused with line, column, field and reason: %s', (_what, text, expected) => {
    const faults = faultsOf(text)
    expect(faults).toHaveLength(expected.length)
    for (const [at, pattern] of expected.entries()) expect(faults[at]).toMatch(pattern)
  })

  it('is refused at the right line despite strings, comments and lists over several lines', () => {
    const text =
      'app = "a"\ndomains = [\n  "port = 1", # [processes.web]\n]\n[env]\nA = """\n[build]\nroot = 1\n"""\n[build]\nroot = 1'
    expect(faultsOf(text)).toEqual(['mote.toml:11:1: build.root must be text'])
  })
})
