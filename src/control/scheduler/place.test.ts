import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HypervisorFeature } from '../../contract/agent.ts'
import { type HostView, type PlacementRequest, explain, explainNever, pick, place } from './place.ts'

const host = (id: string, change: Partial<HostView> = {}): HostView => ({
  id,
  name: `host-${id}`,
  arch: 'x64',
  hypervisors: [{ name: 'qemu', available: true }],
  vcpus: 16,
  memoryMib: 16_384,
  diskMib: 100_000,
  usedVcpus: 0,
  usedMemoryMib: 0,
  usedDiskMib: 0,
  cordoned: false,
  up: true,
  ...change,
})
const request = (change: Partial<PlacementRequest> = {}): PlacementRequest => ({
  hypervisor: undefined,
  vcpus: 1,
  memoryMib: 512,
  diskMib: 1024,
  siblings: new Set(),
  ...change,
})

describe('place', () => {
  it('spreads VMs over hosts by default, and fills one host after another with the strategy bin-pack', () => {
    const hosts = [host('a', { usedMemoryMib: 8192 }), host('b')]
    expect(place(hosts, request()).host?.id).toBe('b')
    expect(place(hosts, request(), 'bin-pack').host?.id).toBe('a')
  })

  it('avoids a host with another replica of the deployment, unless there is no other host', () => {
    const siblings = new Set(['b'])
    expect(place([host('a', { usedVcpus: 15 }), host('b')], request({ siblings })).host?.id).toBe('a')
    expect(place([host('b')], request({ siblings })).host?.id).toBe('b')
  })

  it('places a database on a host that has its image or does not report its images', () => {
    const hosts = [
      host('a', { databaseImages: [] }),
      host('b', { databaseImages: ['postgres:16'] }),
      host('c', { databaseImages: ['postgres:15'], usedMemoryMib: 8192 }),
    ]
    const databaseImage = 'postgres:15'
    expect(place(hosts, request({ databaseImage })).host?.id).toBe('c')
    expect(place(hosts, request()).host?.id).toBe('a')
    expect(place([host('d', { databaseImages: null })], request({ databaseImage })).host?.id).toBe('d')
    const nowhere = place(hosts.slice(0, 2), request({ databaseImage }))
    expect(explain(nowhere)).toContain('2 hosts: lacks the database image')
    // These hosts may still build the database image later.
    expect(nowhere.couldFit).toBe(true)
  })

  it('places a VM on the host that built its image if the image is in no registry', () => {
    const hosts = [host('a'), host('b', { usedVcpus: 15 })]
    expect(place(hosts, request({ builtOn: 'b' })).host?.id).toBe('b')
    const nowhere = place(hosts, request({ builtOn: 'gone' }))
    expect(explain(nowhere)).toContain('2 hosts: image elsewhere')
    expect(nowhere.couldFit).toBe(false)
  })

  it('gives the reason for each rejected host', () => {
    const hosts = [
      host('a', { up: false }),
      host('b', { cordoned: true }),
      host('c', { usedVcpus: 16 }),
      host('d', { usedMemoryMib: 16_000 }),
      host('e', { usedDiskMib: 99_500 }),
      host('f', { hypervisors: [] }),
    ]
    const result = place(hosts, request())
    expect(result.host).toBeUndefined()
    expect(result.rejected.map(r => [r.id, r.reason])).toEqual([
      ['a', 'down'],
      ['b', 'cordoned'],
      ['c', 'not enough vCPUs'],
      ['d', 'not enough memory'],
      ['e', 'not enough disk'],
      ['f', 'hypervisor not offered'],
    ])
    expect(result.couldFit).toBe(true)
    expect(explain(result)).toContain('1 host: cordoned')
  })

  it('reports that a VM would not fit even on empty hosts', () => {
    expect(place([host('a')], request({ memoryMib: 20_000 })).couldFit).toBe(false)
    expect(place([host('a')], request({ hypervisor: 'firecracker' })).couldFit).toBe(false)
    expect(place([], request()).couldFit).toBe(false)
  })

  it('waits for a host that is still probing its hypervisors', () => {
    const starting = host('a', { hypervisors: [{ name: 'qemu', available: false, probing: true }] })
    expect(place([starting], request())).toMatchObject({
      host: undefined,
      couldFit: true,
      rejected: [{ reason: 'still starting' }],
    })
    expect(place([starting], request({ hypervisor: 'firecracker' })).couldFit).toBe(false)
  })

  it('prefers Firecracker, then Cloud Hypervisor, then QEMU; the simulated hypervisor is last', () => {
    const offers = (names: readonly ('firecracker' | 'cloud-hypervisor' | 'qemu' | 'fake')[]) =>
      place([host('a', { hypervisors: names.map(name => ({ name, available: true })) })], request()).host?.hypervisor
    expect(offers(['fake', 'qemu', 'cloud-hypervisor', 'firecracker'])).toBe('firecracker')
    expect(offers(['fake', 'qemu', 'cloud-hypervisor'])).toBe('cloud-hypervisor')
    expect(offers(['fake', 'qemu'])).toBe('qemu')
    expect(offers(['fake'])).toBe('fake')
  })

  it('prefers native speed to emulation, and KVM to gVisor; a request for a VM excludes gVisor', () => {
    const [emulated, kvm, sandbox, fake] = [
      { name: 'qemu', available: true, emulated: true },
      { name: 'qemu', available: true },
      { name: 'gvisor', available: true },
      { name: 'fake', available: true },
    ] as const
    const chosen = (hypervisors: HostView['hypervisors'], hypervisor?: PlacementRequest['hypervisor']) =>
      place([host('a', { hypervisors })], request({ hypervisor })).host?.hypervisor
    expect(chosen([emulated, sandbox, fake])).toBe('gvisor')
    expect(chosen([kvm, sandbox])).toBe('qemu')
    expect(chosen([emulated, fake])).toBe('qemu')
    expect(chosen([emulated, sandbox], 'vm')).toBe('qemu')
    expect(chosen([emulated, sandbox], 'qemu')).toBe('qemu')
    expect(chosen([sandbox], 'vm')).toBeUndefined()
    const never = place([host('a', { hypervisors: [sandbox] })], request({ hypervisor: 'vm' }))
    expect(explainNever(never, request({ hypervisor: 'vm' }))).toContain('No host offers virtual machines')
  })

  it('waits for a host that has just started if it may still report a faster hypervisor than emulated QEMU', () => {
    const hypervisors = [
      { name: 'qemu', available: true, emulated: true },
      { name: 'gvisor', available: false, probing: true },
    ] as const
    const starting = host('a', { hypervisors })
    expect(place([starting], request())).toMatchObject({
      host: undefined,
      couldFit: true,
      rejected: [{ reason: 'still starting' }],
    })
    expect(place([starting], request({ hypervisor: 'qemu' })).host?.hypervisor).toBe('qemu')
    const [qemu] = hypervisors
    const probed = host('a', { hypervisors: [qemu, { name: 'gvisor', available: false }] })
    expect(place([probed], request()).host?.hypervisor).toBe('qemu')
  })

  it('chooses a hypervisor with the needed features, and rejects hosts that have no such hypervisor', () => {
    const offer = (name: 'firecracker' | 'qemu', features: HypervisorFeature[]) => ({ name, available: true, features })
    const both = host('a', {
      hypervisors: [offer('firecracker', ['volumes']), offer('qemu', ['volumes', 'raw-drives', 'encrypted-volumes'])],
    })
    const small = host('b', { hypervisors: [offer('firecracker', ['volumes'])] })
    expect(place([both, small], request({ needs: ['volumes'] })).host?.hypervisor).toBe('firecracker')
    const build = place([both, small], request({ needs: ['raw-drives'] }))
    expect(build.host).toMatchObject({ id: 'a', hypervisor: 'qemu' })
    expect(build.rejected).toMatchObject([{ id: 'b', reason: 'hypervisor lacks a needed feature' }])
    const never = place([small], request({ needs: ['raw-drives'] }))
    expect(never).toMatchObject({ host: undefined, couldFit: false })
    // The VM's volumes would be encrypted on host b only, whose hypervisor cannot open encrypted volumes.
    const secret = place([both, small], request({ needs: ['volumes'], encryptedOn: new Set(['b']) }))
    expect([secret.host?.id, secret.rejected[0]?.id]).toEqual(['a', 'b'])
    expect(place([both], request({ needs: ['volumes'], encryptedOn: new Set(['a']) })).host?.hypervisor).toBe('qemu')
    // A hypervisor counts as having all features if the agent does not report features.
    expect(place([host('c')], request({ needs: ['raw-drives'] })).host?.id).toBe('c')
  })

  it('chooses a host without private networks only if no other host has capacity', () => {
    const closed = host('a', { hypervisors: [{ name: 'qemu', available: true, features: ['volumes'] }] })
    expect(place([closed, host('b', { usedVcpus: 15 })], request()).host?.id).toBe('b')
    expect(place([closed, host('b', { usedVcpus: 16 })], request()).host?.id).toBe('a')
  })

  it('never proposes a host without enough capacity, for random hosts and requests', () => {
    const arbitraryHost = fc.record({
      used: fc.nat(20),
      memory: fc.nat(20_000),
      cordoned: fc.boolean(),
      up: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(arbitraryHost, { maxLength: 20 }), fc.nat(20), fc.nat(20_000), (list, vcpus, memoryMib) => {
        const hosts = list.map((h, i) =>
          host(String(i), { usedVcpus: h.used, usedMemoryMib: h.memory, cordoned: h.cordoned, up: h.up }),
        )
        const chosen = place(hosts, request({ vcpus, memoryMib })).host
        const fitting = hosts.filter(
          h => h.up && !h.cordoned && h.usedVcpus + vcpus <= 16 && h.usedMemoryMib + memoryMib <= 16_384,
        )
        expect(chosen ? fitting.some(h => h.id === chosen.id) : fitting.length === 0).toBe(true)
      }),
    )
  })

  it('chooses a host with the best score whatever the order of the hosts, and gives a reason for each rejected host', () => {
    const arbitraryHost = fc.record({
      used: fc.nat(18),
      cordoned: fc.boolean(),
      closed: fc.boolean(),
      sibling: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(arbitraryHost, { maxLength: 20 }), list => {
        const features = (closed: boolean): HypervisorFeature[] => (closed ? [] : ['private-network'])
        const hosts = list.map((h, i) =>
          host(String(i), {
            usedVcpus: h.used,
            cordoned: h.cordoned,
            hypervisors: [{ name: 'qemu', available: true, features: features(h.closed) }],
          }),
        )
        const siblings = new Set(list.flatMap((h, i) => (h.sibling ? [String(i)] : [])))
        // Another replica of the deployment makes a host worse than missing private networks do, and these make it
        // worse than any load.
        const cost = (at: number) => {
          const { used = 0, sibling = false, closed = false } = list[at] ?? {}
          return (sibling ? 10_000 : 0) + (closed ? 5000 : 0) + used
        }
        const fitting = list.flatMap((h, i) => (!h.cordoned && h.used < 16 ? [i] : []))
        const best = fitting.toSorted((a, b) => cost(a) - cost(b) || (String(a) < String(b) ? -1 : 1))[0]
        for (const some of [hosts, hosts.toReversed()]) {
          expect(pick(some, request({ siblings }))?.id).toBe(best === undefined ? undefined : String(best))
          const { host: chosen, rejected } = place(some, request({ siblings }))
          expect(chosen?.id).toBe(best === undefined ? undefined : String(best))
          expect(rejected).toHaveLength(list.length - fitting.length)
        }
      }),
    )
  })
})
