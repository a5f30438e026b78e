import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { expect, test } from 'vitest'
import { sandboxSpec, sandboxTasks } from './spec.ts'

const Spec = Type.Object({
  mounts: Type.Array(
    Type.Object({ destination: Type.String(), source: Type.String(), options: Type.Array(Type.String()) }),
  ),
  annotations: Type.Record(Type.String(), Type.String()),
  linux: Type.Object({
    namespaces: Type.Array(Type.Object({ type: Type.String(), path: Type.Optional(Type.String()) })),
    cgroupsPath: Type.Optional(Type.String()),
    resources: Type.Object({
      pids: Type.Object({ limit: Type.Integer() }),
      cpu: Type.Object({ quota: Type.Integer(), period: Type.Integer() }),
    }),
  }),
})

const plan = {
  hostname: 'hello',
  base: '/cache/bases/1/base.img',
  share: '/vm/share',
  volumes: '/vm/volumes',
  drives: [{ serial: 'source', file: '/vm/source', readOnly: true }],
  emptyRoot: '/vm/root',
  namespace: 'motea1',
  vcpus: 2,
  memoryMib: 256,
  diskMib: 64,
  cgroup: undefined,
}

test('a sandbox has access to its own directories only, and has its own namespaces', () => {
  const spec = Value.Parse(Spec, sandboxSpec(plan))
  const sources = spec.mounts.map(({ source }) => source)
  expect(sources.filter(source => source.startsWith('/')).every(source => source.startsWith('/vm/'))).toBe(true)
  const types = spec.linux.namespaces.map(({ type }) => type).toSorted()
  expect(types).toEqual(['ipc', 'mount', 'network', 'pid', 'uts'])
  expect(spec.linux.namespaces.find(({ type }) => type === 'network')?.path).toBe('/run/netns/motea1')
  expect(spec.annotations['dev.gvisor.spec.rootfs.options']).toBe('size=64m')
  expect(spec.linux.cgroupsPath).toBeUndefined()
})

test('drives and the shared directory are read-only, and the directory of volumes is writable', () => {
  const { mounts } = Value.Parse(Spec, sandboxSpec(plan))
  const writable = mounts.filter(({ options }) => options.includes('rw')).map(({ destination }) => destination)
  expect(writable).toEqual(['/.mote-volumes'])
})

test('a sandbox has a limit on its processes and threads on the host', () => {
  expect(Value.Parse(Spec, sandboxSpec(plan)).linux.resources.pids.limit).toBe(sandboxTasks)
})

test('the CPU quota of a sandbox, including its kernel, equals its number of vCPUs', () => {
  for (const vcpus of [1, 2, 8]) {
    const { quota, period } = Value.Parse(Spec, sandboxSpec({ ...plan, vcpus })).linux.resources.cpu
    expect(quota / period).toBe(vcpus)
    // The kernel accepts quota periods of 1 ms to 1 s.
    expect(period).toBeGreaterThanOrEqual(1_000)
    expect(period).toBeLessThanOrEqual(10_000)
  }
})
