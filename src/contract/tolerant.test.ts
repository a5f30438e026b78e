/** Forward compatibility: messages of newer programs are accepted, and unknown parts are ignored. */
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { describe, expect, it } from 'vitest'
import * as agent from './agent.ts'
import { HostNetwork } from './network.ts'
import { Route } from './gateway.ts'
import { readHeartbeat, readRoute, readRoutes } from './tolerant.ts'

const capabilities = { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate: 'live' }
const vm = {
  vmId: 'vm-1',
  generation: 3,
  state: 'running',
  healthy: true,
  endpoint: null,
  imageDigest: null,
  hypervisor: 'qemu',
  error: null,
  exitCode: null,
  restartCount: 0,
  startedAtMs: null,
  steps: [],
}
const heartbeat = {
  hostId: 'h',
  name: 'h',
  incarnation: 'i',
  version: '1',
  arch: 'x64',
  network: 'tap',
  vcpus: 1,
  memoryMib: 1,
  diskMib: 1,
  vms: [vm],
  stats: [],
  hypervisors: [{ name: 'qemu', available: true, detail: '', capabilities, features: ['volumes'] }],
}
const route = {
  hostname: 'a.test',
  projectId: 'p',
  appId: 'a',
  state: 'live',
  backends: [],
  drainSeconds: 0,
  version: 1,
}

describe('a heartbeat of a newer agent', () => {
  it('without unknown parts is accepted unchanged', () =>
    expect(readHeartbeat(heartbeat)).toEqual({ heartbeat, unknown: [], generations: new Map() }))

  it('with unknown fields is accepted', () => {
    const more = {
      ...heartbeat,
      tomorrow: { a: 1 },
      vms: [{ ...vm, tomorrow: 1 }],
      hypervisors: [{ ...heartbeat.hypervisors[0], tomorrow: 1 }],
    }
    expect(readHeartbeat(more)).toMatchObject({ heartbeat: { hostId: 'h', vms: [vm] }, unknown: [] })
  })

  it('with an unknown feature is accepted, keeps the feature and reports it', () => {
    const [offer] = heartbeat.hypervisors
    const { heartbeat: read, unknown } = readHeartbeat({
      ...heartbeat,
      hypervisors: [{ ...offer, features: ['volumes', 'teleport'] }],
    })
    expect(unknown).toEqual(['feature teleport'])
    expect(read.hypervisors[0]?.features).toEqual(['volumes', 'teleport'])
    expect(agent.offersFeature(read.hypervisors[0]!, 'volumes')).toBe(true)
    expect(agent.offersFeature(read.hypervisors[0]!, 'moved-volumes')).toBe(false)
  })

  it('with an unknown hypervisor or kind of migration is accepted without it', () => {
    const [offer] = heartbeat.hypervisors
    const moves = { ...offer, capabilities: { ...capabilities, migrate: 'teleport' } }
    const { heartbeat: read, unknown } = readHeartbeat({
      ...heartbeat,
      hypervisors: [moves, { ...offer, name: 'hyper' }],
    })
    expect(unknown).toEqual(['way to move VMs teleport', 'hypervisor hyper'])
    expect(read.hypervisors).toEqual([{ ...offer, capabilities: { ...capabilities, migrate: 'none' } }])
  })

  it('with a VM in an unknown state lists that VM without its state', () => {
    const odd = { ...vm, vmId: 'vm-2', state: 'dreaming' }
    const { heartbeat: read, unknown, generations } = readHeartbeat({ ...heartbeat, vms: [vm, odd] })
    expect(unknown).toEqual(['state of a VM'])
    expect(read.vms).toEqual([vm, expect.objectContaining({ vmId: 'vm-2', generation: 0 })])
    expect(read.vms?.[1]?.state).not.toBe('absent')
    expect([...generations]).toEqual([['vm-2', 3]])
  })

  it('with an invalid field is refused', () => {
    expect(() => readHeartbeat({ hello: 1 })).toThrow()
    expect(() => readHeartbeat({ ...heartbeat, vcpus: 'many' })).toThrow()
    expect(() => readHeartbeat({ ...heartbeat, vms: [{}] })).toThrow()
  })
})

describe('a route of a newer control plane', () => {
  it('in an unknown state is down, and the other routes serve', () => {
    const odd = { ...route, hostname: 'b.test', state: 'dreaming', tomorrow: 1 }
    const read = readRoutes({ version: 2, routes: [route, odd] })
    expect(read).toMatchObject({ version: 2, routes: [{ state: 'live' }, { hostname: 'b.test', state: 'down' }] })
    expect(readRoute({ ...route, tomorrow: 1 }).state).toBe('live')
  })
  it('with a missing field is refused', () => {
    expect(() => readRoute({ state: 'live' })).toThrow()
    expect(() => readRoutes({ version: 1, routes: [{}] })).toThrow()
    expect(() => readRoutes({ routes: [] })).toThrow()
  })
})

/** A valid example of every message between two programs. */
const messages = {
  VmObserved: [agent.VmObserved, vm],
  VmPut: [
    agent.VmPut,
    {
      vmId: 'vm-1',
      generation: 1,
      want: 'running',
      spec: {
        projectId: 'p',
        appId: 'a',
        deploymentId: 'd',
        hostname: 'h',
        hypervisor: 'qemu',
        image: 'i',
        vcpus: 1,
        memoryMib: 64,
        diskMib: 16,
        env: {},
        port: 1,
        healthCheckPath: null,
        ipv6Address: '::',
        maxRestarts: 0,
        restarts: 0,
        balloonTargetMib: null,
        disks: [],
      },
    },
  ],
  SnapshotPut: [agent.SnapshotPut, { snapshotId: 's', vmId: 'v', generation: 1, want: 'present' }],
  SnapshotObserved: [
    agent.SnapshotObserved,
    {
      snapshotId: 's',
      vmId: 'v',
      generation: 1,
      state: 'ready',
      sizeBytes: 1,
      sha256: null,
      madeBy: null,
      pauseMs: null,
      error: null,
    },
  ],
  VolumePut: [agent.VolumePut, { volumeId: 'v', generation: 1, want: 'present', pool: 'p', sizeMib: 1 }],
  VolumeObserved: [agent.VolumeObserved, { volumeId: 'v', generation: 1, state: 'ready', restored: 0, error: null }],
  VolumeSnapshotPut: [
    agent.VolumeSnapshotPut,
    { snapshotId: 's', volumeId: 'v', pool: 'p', generation: 1, want: 'present' },
  ],
  VolumeSnapshotObserved: [
    agent.VolumeSnapshotObserved,
    { snapshotId: 's', volumeId: 'v', generation: 1, state: 'ready', sizeBytes: 0, pauseMs: null, error: null },
  ],
  VmForget: [agent.VmForget, { vmId: 'v', generation: 1 }],
  HostNetwork: [HostNetwork, { version: 1, hash: '', address: '', peers: [], zones: [] }],
  Route: [Route, route],
} as const

describe.each(Object.entries(messages))('%s', (_, [schema, message]) => {
  it('is accepted with unknown fields at every level', () => {
    expect(Value.Check(schema, message)).toBe(true)
    expect(Value.Check(schema, withMore(message))).toBe(true)
  })
})

const Bag = Type.Record(Type.String(), Type.Unknown())
/** Adds an unknown field to every object of a message except `env`, whose members are variables. */
function withMore(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map(one => withMore(one))
  if (name === 'env' || !Value.Check(Bag, value)) return value
  const all = Object.entries(value).map(([key, one]) => [key, withMore(one, key)])
  return { ...Object.fromEntries(all), tomorrow: { what: 'nobody knows' } }
}
