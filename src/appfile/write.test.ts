import { describe, expect, it } from 'vitest'
import { effectiveFile } from './defaults.ts'
import type { EffectiveFile } from './effective.ts'
import { parseAppFile } from './parse.ts'
import { newFileText, pulledText } from './write.ts'

const text = `# The shop.
app = "shop" # its name

[env]
# Why.
LEVEL = "debug"
OLD = "1"

[processes.web]
port = 3000 # as in the Dockerfile

[[volumes]]
name = "data"
mount = "/data" # keep
`
const now = effectiveFile(parseAppFile(text))
const states: Readonly<Record<string, EffectiveFile>> = {
  'the same': now,
  'a variable': { ...now, env: { LEVEL: 'info', OLD: '1', NEW: 'a "quoted"\nvalue' } },
  'a variable with dots': { ...now, env: { LEVEL: 'info', OLD: '1', 'discovery.type': 'single-node' } },
  'no variables': { ...now, env: {} },
  'a port': { ...now, processes: { web: { ...now.processes.web, port: 8080 } } },
  'a health check': { ...now, processes: { web: { ...now.processes.web, health: { path: '/health' } } } },
  autoscaling: {
    ...now,
    processes: { web: { ...now.processes.web, autoscaling: { max_replicas: 1, cpu_percent: 50, memory_percent: 80 } } },
  },
  'a release command': { ...now, release: { command: ['npm', 'run', 'migrate'] } },
  'a command': { ...now, processes: { web: { ...now.processes.web, command: ['node', 'a b'] } } },
  'a worker': {
    ...now,
    workers: { mails: { command: ['node', 'mails.js'], vcpus: 1, memory_mib: 1024, disk_mib: 1024, replicas: 2 } },
  },
  'no volumes': { ...now, volumes: [] },
  volumes: {
    ...now,
    volumes: [
      { name: 'other', mount: '/o', size_mib: 64, read_only: true },
      { name: 'data', mount: '/data', size_mib: 2048, read_only: false },
    ],
  },
  domains: { ...now, domains: ['www.example.com', 'a.example.com'] },
  services: { ...now, services: { mqtt: { port: 1883, tls: 'none' }, secure: { port: 1884, tls: 'sni' } } },
  jobs: {
    ...now,
    jobs: {
      report: {
        schedule: '30 2 * * *',
        command: ['python', 'report.py'],
        time_zone: 'Europe/Berlin',
        overlap: 'skip',
        retries: 0,
        timeout_seconds: 60,
      },
    },
  },
  'a restart policy': {
    ...now,
    processes: { web: { ...now.processes.web, restart: 'on-failure', max_restarts: 3 } },
  },
  'inputs of the build': {
    ...now,
    inputs: { dockerfile: 'a/b.Dockerfile', args: { A: 'x "y"' }, env: ['LEVEL'], secrets: ['TOKEN'] },
  },
  'a file with the value of a variable': { ...now, files: [{ path: '/run/key', mode: '0400', variable: 'KEY' }] },
  'environment groups': { ...now, envGroups: ['base', 'team'] },
  'an image': { ...now, build: { image: 'a:1' } },
  'a repository': { ...now, build: { repository: 'https://a/b', branch: 'main', submodules: true } },
}

describe('pulling the state of an app into mote.toml', () => {
  it.each(Object.entries(states))(
    "with %s writes the app's settings into the file, and keeps comments",
    async (name, state) => {
      const pulled = await pulledText(text, state)
      expect(effectiveFile(parseAppFile(pulled.text))).toEqual(state)
      expect(pulled.isRewritten).toBe(false)
      expect(pulled.text).toContain('# The shop.\napp = "shop" # its name\n')
      expect(pulled.text).toContain('# as in the Dockerfile')
      expect(pulled.text === text).toBe(name === 'the same')
      expect((await pulledText(pulled.text, state)).text, 'a second pull changes nothing').toBe(pulled.text)
    },
  )

  it('adds tables with headers to a new file, and keeps its first lines', async () => {
    const { text: made } = await pulledText(newFileText({ app: 'shop' }, 'http://x'), states['autoscaling'] ?? now)
    expect(made).toMatch(/^#:schema http:\/\/x\/.*\n# "mote deploy"/)
    expect(made).toContain('[processes.web]\nport = 3000\n')
    expect(made).toContain('[processes.web.autoscaling]\nmax_replicas = 1\n')
    expect(made).toContain('[[volumes]]\nname = "data"\n')
  })
})

it('a new file is valid, and refers editors to the schema', () => {
  const made = newFileText({ app: 'shop', processes: { web: { port: 80 } } }, 'https://mote.example')
  expect(made.split('\n')[0]).toBe('#:schema https://mote.example/v1/api-docs/mote.schema.json')
  expect(parseAppFile(made)).toEqual({ app: 'shop', processes: { web: { port: 80 } } })
})
