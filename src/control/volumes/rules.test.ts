import { fullnessOf } from './fullness.ts'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fitVolumes, type PoolView, type VolumeNeed } from '../scheduler/pools.ts'
import type { Attachment } from './attach-store.ts'
import * as rules from './rules.ts'

describe('mount points', () => {
  it.each([
    ...['/data', '/srv/www', '/var/lib/postgresql/data', '/usr/share/nginx/html', '/a.b/c_d-e', '/opt/app'],
    ...['/etc/letsencrypt', '/etc/nginx/conf.d', '/root', '/srv'],
  ])('%s is allowed', path => expect(rules.checkMountPoint(path)).toBe(path))
  it.each([
    ...['', 'data', './data', '/', '//', '/data/', '/data//x', '/data/.', '/data/..', '/../data', '/data/../etc'],
    ...[
      '/etc',
      '/etc/passwd',
      '/etc/hosts',
      '/etc/mote/x',
      '/proc',
      '/sys/x',
      '/dev/sda',
      '/bin',
      '/usr/bin/x',
      '/usr',
      '/var',
      '/var/lib',
      '/tmp',
    ],
    ...['/a b', '/a\nb', '/a\\b', '/ä', '/%2e%2e', `/${'x'.repeat(200)}`],
  ])('%j is refused', path => {
    expect(() => rules.checkMountPoint(path)).toThrow(/mount_point/)
  })
  it('cannot be outside of the allowed directories', () => {
    const part = fc.constantFrom('..', '.', '', 'data', 'etc', 'usr', 'bin', 'x', 'a b')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 5 }), parts => {
        const path = `/${parts.join('/')}`
        try {
          rules.checkMountPoint(path)
        } catch {
          return
        }
        expect(path).toMatch(/^(\/[A-Za-z0-9._@+-]+)+$/)
        expect(parts).not.toContain('..')
        expect(parts[0]).not.toBe('bin')
        expect(path).not.toBe('/etc')
      }),
    )
  })
})

describe('attaching a volume', () => {
  const volume = { name: 'data', state: 'ready' } as const
  const app = { id: 'app', name: 'web', maxReplicas: 1, autoscaling: false }
  const at = (change: Partial<Attachment>): Attachment => ({
    id: 't',
    volumeId: 'v',
    appId: 'other',
    appName: 'other',
    deploymentId: null,
    mountPoint: '/data',
    accessMode: 0,
    want: 'attached',
    vms: 0,
    attached: 0,
    trouble: null,
    ...change,
  })
  const attempt = (
    ofVolume: readonly Attachment[],
    {
      accessMode = 0,
      maxReplicas = 1,
      ofApp = [],
    }: { accessMode?: 0 | 1; maxReplicas?: number; ofApp?: Attachment[] } = {},
  ) => {
    try {
      const desired = { mountPoint: '/data', accessMode }
      rules.assertAttachable(volume, { ...app, maxReplicas }, desired, ofVolume, ofApp)
      return 'ok'
    } catch (error) {
      return error instanceof Error && 'code' in error ? error.code : 'bug'
    }
  }
  it.each([
    ['that is free, read-write', 'ok', attempt([])],
    ['that is free, read-only', 'ok', attempt([], { accessMode: 1 })],
    ['that another app has read-write, read-write', 'volume_in_use', attempt([at({})])],
    ['that another app has read-write, read-only', 'volume_in_use', attempt([at({})], { accessMode: 1 })],
    ['that another app has read-only, read-write', 'volume_in_use', attempt([at({ accessMode: 1 })])],
    ['that another app has read-only, read-only', 'ok', attempt([at({ accessMode: 1 })], { accessMode: 1 })],
    ['that the app already has', 'volume_in_use', attempt([at({ appId: 'app', accessMode: 1 })], { accessMode: 1 })],
    ['that is being detached from the app', 'volume_in_use', attempt([at({ appId: 'app', want: 'detached' })])],
    ['read-write to an app with several replicas', 'invalid_state', attempt([], { maxReplicas: 2 })],
    ['read-only to an app with several replicas', 'ok', attempt([], { maxReplicas: 2, accessMode: 1 })],
    ['at the mount point of another volume', 'volume_in_use', attempt([], { ofApp: [at({ mountPoint: '/data' })] })],
    [
      'above the mount point of another volume',
      'volume_in_use',
      attempt([], { ofApp: [at({ mountPoint: '/data/x' })] }),
    ],
    ['next to the mount point of another volume', 'ok', attempt([], { ofApp: [at({ mountPoint: '/data2' })] })],
  ])('%s, results in: %s', (_, wanted, found) => expect(found).toBe(wanted))
})

describe('placement of volumes', () => {
  const pool = (hostId: string, name: string, roomMib: number, shared = false): PoolView => ({
    hostId,
    name,
    roomMib,
    shared,
    encrypted: false,
  })
  const need = (change: Partial<VolumeNeed> = {}): VolumeNeed => ({
    volumeId: 'v',
    poolName: '',
    sizeMib: 100,
    hostId: null,
    bound: true,
    ...change,
  })
  const nameOf = (pools: readonly PoolView[], hostId: string, wanted: VolumeNeed) =>
    fitVolumes(pools, hostId, [wanted])?.get('v')?.name
  it('chooses the default pool if it has enough space, otherwise the pool with the most free space; a requested pool is the only choice', () => {
    const pools = [pool('a', 'fast', 900), pool('a', 'local', 200), pool('a', 'slow', 999)]
    expect(nameOf(pools, 'a', need())).toBe('local')
    expect(nameOf(pools, 'a', need({ sizeMib: 300 }))).toBe('slow')
    expect(nameOf(pools, 'a', need({ poolName: 'fast' }))).toBe('fast')
    expect(nameOf(pools, 'a', need({ poolName: 'fast', sizeMib: 901 }))).toBeUndefined()
    expect(nameOf(pools, 'b', need())).toBeUndefined()
  })
  it('requires no free space for a volume that has a host, and accepts only this host unless the pool is shared', () => {
    const pools = [pool('a', 'local', 0), pool('b', 'local', 500)]
    const there = need({ hostId: 'a', poolName: 'local' })
    expect(nameOf(pools, 'a', there)).toBe('local')
    expect(nameOf(pools, 'b', there)).toBeUndefined()
    expect(nameOf([pool('b', 'ceph', 0, true)], 'b', need({ hostId: 'a', poolName: 'ceph', bound: false }))).toBe(
      'ceph',
    )
  })
  it('requires enough space for all volumes of a VM together', () => {
    const both = [need({ volumeId: 'v' }), need({ volumeId: 'w' })]
    expect(fitVolumes([pool('a', 'local', 150)], 'a', both)).toBeUndefined()
    expect(fitVolumes([pool('a', 'local', 200)], 'a', both)?.size).toBe(2)
    expect(fitVolumes([pool('a', 'local', 150), pool('a', 'fast', 150)], 'a', both)?.get('w')?.name).toBe('fast')
  })
  it('chooses the host with the most free space that is up for a volume without a VM', () => {
    const hosts = ['a', 'b', 'c'].map(id => ({ id, up: id !== 'c', cordoned: false }))
    const pools = [pool('a', 'local', 200), pool('b', 'local', 300), pool('c', 'local', 900)]
    expect(rules.choosePlace(pools, hosts, need())?.hostId).toBe('b')
    expect(rules.choosePlace(pools, hosts, need({ sizeMib: 500 }))).toBeUndefined()
  })
})

describe('the fullness level of which users are notified', () => {
  it.each([
    [79.9, 0, 0],
    [80, 0, 80],
    [80, 80, 80],
    [75.1, 80, 80],
    [74.9, 80, 0],
    [95, 80, 95],
    [96, 0, 95],
    [90.1, 95, 95],
    [89.9, 95, 80],
    [10, 95, 0],
  ] as const)('of a volume that is %d percent full changes from %d to %d', (percent, known, level) =>
    expect(fullnessOf(percent, known)).toBe(level),
  )
})
