import { describe, expect, it } from 'vitest'
import { explain, type HostView, pick, place, type PlacementRequest } from './place.ts'
import { roomFor } from './room.ts'
import { visibleLabels, wishesOf } from './wishes.ts'

const host = (id: string, labels: Readonly<Record<string, string>>, change: Partial<HostView> = {}): HostView => ({
  id,
  name: id,
  arch: 'x64',
  hypervisors: [{ name: 'fake', available: true }],
  vcpus: 8,
  memoryMib: 8192,
  diskMib: 100_000,
  usedVcpus: 0,
  usedMemoryMib: 0,
  usedDiskMib: 0,
  cordoned: false,
  up: true,
  labels,
  ...change,
})
const hosts = [host('a', { region: 'us', disk: 'hdd' }), host('b', { region: 'eu', disk: 'nvme' }), host('c', {})]
const visible = ['region']
const request = (
  require: Readonly<Record<string, string>>,
  prefer: Readonly<Record<string, string>> = {},
  siblings: readonly string[] = [],
): PlacementRequest => ({
  hypervisor: undefined,
  vcpus: 1,
  memoryMib: 512,
  diskMib: 1024,
  siblings: new Set(siblings),
  wishes: wishesOf({ require, prefer }, visible),
})

describe('a VM whose app requires labels', () => {
  it('is placed on the only host that has them', () => {
    expect(pick(hosts, request({ region: 'eu' }))?.id).toBe('b')
  })

  it("is refused with the labels' names and values if no host has them", () => {
    const room = roomFor(hosts, request({ region: 'mars' }))
    expect(room.ever).toBe(0)
    expect(room.limit).toBe('No host has region=mars. Labels that hosts have: region (eu, us)')
    expect(explain(place(hosts, request({ region: 'mars' })))).toBe(
      'No host is suitable now (3 hosts: not region=mars).',
    )
  })

  it('waits for capacity if the hosts that have them are full', () => {
    const full = hosts.map(one => (one.id === 'b' ? { ...one, usedVcpus: 8 } : one))
    const placement = place(full, request({ region: 'eu' }))
    expect(placement.host).toBeUndefined()
    expect(placement.couldFit).toBe(true)
    expect(roomFor(full, request({ region: 'eu' })).ever).toBe(8)
  })

  it("matches no host if apps may not use the label, and the error does not show the label's values", () => {
    const room = roomFor(hosts, request({ disk: 'nvme' }))
    expect(room.placement.host).toBeUndefined()
    expect(room.limit).toContain('No host has disk=nvme')
    expect(room.limit).not.toContain('hdd')
    const none = roomFor(hosts, request({ disk: 'no-such-value' }))
    expect(none.limit.replace('no-such-value', 'nvme')).toBe(room.limit)
  })

  it('matches no host if a required label has the name of a property that all JavaScript objects inherit', () => {
    const odd = wishesOf({ require: { constructor: 'x' }, prefer: {} }, ['constructor'])
    expect(pick(hosts, { ...request({}), wishes: odd })).toBeUndefined()
    expect(visibleLabels({}, ['constructor', 'region'])).toEqual({})
  })
})

describe('a VM whose app prefers labels', () => {
  it('is placed on a host that has them even if that host is busy and runs another replica', () => {
    const busy = hosts.map(one => (one.id === 'b' ? { ...one, usedVcpus: 7 } : one))
    expect(pick(busy, request({}, { region: 'eu' }, ['b']))?.id).toBe('b')
  })

  it('is placed on a host without them if the hosts that have them are full', () => {
    const full = hosts.map(one => (one.id === 'b' ? { ...one, usedVcpus: 8 } : one))
    expect(pick(full, request({}, { region: 'eu' }))?.id).toMatch(/[ac]/)
  })

  it('is placed as if it preferred no labels if apps may not use these labels', () => {
    expect(pick(hosts, request({}, { disk: 'nvme' }))?.id).toBe(pick(hosts, request({}))?.id)
  })
})
