import type { App, Build, LiveDeployment, LiveDeploymentStatus, MeshNode } from '@mote/client'
import { describe, expect, it } from 'vitest'
import { can, deploymentStatuses } from '../../../src/contract/deployments.ts'
import { ago, bytes, duration } from '../ui/format.ts'
import { deviceOf } from './account/device.ts'
import { appStatus, liveOf } from './app/live.ts'
import { pointOf, withPoint } from './app/samples.ts'
import { whyNot } from './app/verbs.ts'
import { stepsOf } from './deployment/steps.ts'
import { wordsOf } from './deployment/words.ts'
import { placesOf } from './mesh-places.ts'

const app: App = {
  id: 'a',
  name: 'web',
  git_url: '',
  port: 80,
  health_check_path: '/',
  drain_timeout: 1,
  created_at: '',
  desired_replicas: 1,
  min_replicas: 1,
  max_replicas: 1,
  autoscaling_enabled: false,
  cpu_threshold: 80,
  mem_threshold: 80,
  scale_state: 'active',
  release_command: null,
  canary: null,
  strategy: 'rolling',
  hosts: { require: {}, prefer: {} },
  restart: { policy: 'always', max_restarts: null },
  build: { dockerfile: '', args: {}, env: [], secrets: [] },
  settings_changed_at: null,
  kind: 'web',
  env_of: null,
  command: [],
  arguments: [],
  stack: null,
  failure: null,
  active_deployment_id: 'd1',
  git_branch: '',
  git_submodules: false,
}
const live: LiveDeploymentStatus = {
  app_id: 'a',
  app_name: 'web',
  deployment_id: 'd1',
  job_id: 'j1',
  vm_id: 'v',
  host_id: 'h',
  hypervisor: 'qemu',
  image: 'i',
  ipv6_address: '',
  status: 'running',
  scale_state: 'active',
  cpu_usage: 1,
  memory_mib: 512,
  ram_used_bytes: 1,
  rx_bytes: 0,
  tx_bytes: 0,
  vcpus: 1,
  error_message: '',
  canary: null,
  scheduled_at: 1,
  started_at: 2,
  stopped_at: 0,
  steps: [],
}

describe('operations on a deployment', () => {
  it('are enabled only in states in which the server allows them', () => {
    for (const verb of ['stop', 'cancel', 'pause', 'resume', 'delete', 'activate'] as const)
      for (const status of deploymentStatuses) {
        const possible: readonly string[] = can[verb]
        if (whyNot(verb, status) === undefined) expect(possible, `${verb} while ${status}`).toContain(status)
        else expect(whyNot(verb, status)).toMatch(/^It is|cannot be/)
      }
  })
  it('are disabled with a reason that names the states in which they are possible', () => {
    expect(whyNot('cancel', 'running')).toBe(
      'A deployment that is running cannot be cancelled. Possible while: pending, building, scheduled, starting.',
    )
    expect(whyNot('activate', 'running', true)).toBe('It is already serving.')
    expect(whyNot('pause', 'running')).toBeUndefined()
  })
})

describe('the status of an app', () => {
  const other = (change: Partial<LiveDeployment>): LiveDeployment => ({ ...live, deployment_id: 'd2', ...change })
  it('is that of the serving deployment, or "deploying" during a rollout', () => {
    expect(liveOf(app, [other({}), live])?.deployment_id).toBe('d1')
    expect(appStatus(app, [live])).toBe('running')
    expect(appStatus(app, [live, other({ status: 'starting' })])).toBe('deploying')
    expect(appStatus(app, [other({ app_id: 'b', status: 'starting' })])).toBe('stopped')
    expect(appStatus({ ...app, active_deployment_id: null }, [])).toBe('not deployed')
    expect(appStatus({ ...app, active_deployment_id: null, failure: 'It exited.' }, [])).toBe('failed')
    expect(appStatus({ ...app, scale_state: 'scaled_to_zero' }, [])).toBe('sleeping')
  })
})

describe('the steps of a deployment', () => {
  const states = (change: Partial<LiveDeploymentStatus>) =>
    stepsOf({ ...live, ...change }).map(step => `${step.name}: ${step.state}`)
  it('are shown as done, current or failed', () => {
    const starting = { status: 'starting', started_at: 0, steps: [{ name: 'image', ms: 5 }] }
    expect(states(starting).slice(2, 4)).toEqual(['Image fetched: done', 'Base disk created: now'])
    expect(states({ ...starting, status: 'failed' })).toContain('Base disk created: failed')
    expect(states({ status: 'pending', host_id: '', scheduled_at: 0, started_at: 0 })[1]).toBe('Placed on a host: now')
  })
  it('include the steps of its build, if there is one', () => {
    const waiting = { ...live, status: 'building', host_id: '', scheduled_at: 0, started_at: 0 }
    const build: Build = {
      id: 'b',
      deployment_id: 'd1',
      job_id: 'j1',
      source: null,
      status: 'building',
      git_branch: 'main',
      git_commit_hash: 'c',
      git_commit_message: 'm',
      trigger_source: 'push',
      image: null,
      error: null,
      created_at: '',
      started_at: null,
      ended_at: null,
    }
    const first = (status: string, change: Partial<Build>) =>
      stepsOf({ ...waiting, status }, { ...build, ...change })
        .slice(1, 4)
        .map(step => step.state)
    expect(first('building', {})).toEqual(['done', 'now', 'next'])
    expect(first('failed', { status: 'failed' })).toEqual(['done', 'failed', 'next'])
    expect(first('failed', { status: 'failed', git_commit_hash: '' })).toEqual(['failed', 'next', 'next'])
    expect(first('starting', { status: 'succeeded' })).toEqual(['done', 'done', 'done'])
  })
  it('omit steps that the host did not need', () => {
    expect(states({ steps: [{ name: 'boot', ms: 1 }] })).toEqual([
      ...['Accepted: done', 'Placed on a host: done', 'System booted: done', 'Online: done'],
    ])
  })
})

describe('live metrics', () => {
  const sample = (rx_bytes: number, second: number) => ({
    rx_bytes,
    tx_bytes: 0,
    cpu_usage: 10,
    ram_used_bytes: 5,
    memory_mib: 1,
    at: new Date(second * 1000).toISOString(),
  })
  it('include rates, except after a reset of the counters', () => {
    const first = pointOf([sample(100, 10)], undefined)
    expect(first.rxRate).toBeNull()
    expect(pointOf([sample(300, 12)], first).rxRate).toBe(100)
    expect(pointOf([sample(50, 12)], first).rxRate).toBeNull()
    expect(pointOf([sample(100, 12), sample(200, 12)], first)).toMatchObject({
      ramBytes: 10,
      cpuPercent: 10,
      rxRate: 100,
    })
  })
  it('are dropped once they are older than the time window', () => {
    const points = [0, 100, 400].reduce<ReturnType<typeof withPoint>>(
      (all, at) => withPoint(all, pointOf([sample(0, at)], undefined)),
      [],
    )
    expect(points.map(point => point.at)).toEqual([100, 400])
  })
})

describe('formatting and parsing of text', () => {
  it('shows sizes, durations, ages and browsers in readable form', () => {
    expect([bytes(0), bytes(1023), bytes(1536), bytes(1024 ** 3)]).toEqual(['0 B', '1 KiB', '1.5 KiB', '1 GiB'])
    expect([duration(0.4), duration(999), duration(61_000)]).toEqual(['0.4 ms', '999 ms', '1 min 1 s'])
    const now = new Date('2026-01-02T00:00:00Z')
    expect([ago(new Date('2026-01-01T22:00:00Z'), now), ago(now, now)]).toEqual(['2h ago', 'just now'])
    expect(deviceOf('Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36')).toBe(
      'Chrome on Linux',
    )
    expect(deviceOf('curl/8.5')).toBe('curl/8.5')
  })
  it('splits a command into arguments as a shell does', () => {
    expect(wordsOf(`echo "a b" 'c "d"' e"f g"h`)).toEqual(['echo', 'a b', 'c "d"', 'ef gh'])
    expect(wordsOf('  ')).toEqual([])
  })
})

describe('the map of the mesh', () => {
  it('gives each host a separate position, in the order of names', () => {
    const node = (name: string): MeshNode => ({
      host_id: name,
      name,
      address: null,
      public_key: null,
      endpoint: null,
      status: 'up',
      last_handshake_at: null,
      rx_bytes: 0,
      tx_bytes: 0,
      latency_ms: null,
    })
    const places = placesOf(['c', 'a', 'b'].map(node))
    expect(places.map(place => place.node.name)).toEqual(['a', 'b', 'c'])
    expect(new Set(places.map(({ x, y }) => `${Math.round(x)} ${Math.round(y)}`)).size).toBe(3)
    expect(placesOf([node('a')])).toEqual([{ node: node('a'), x: 320, y: 185.6 }])
  })
})
