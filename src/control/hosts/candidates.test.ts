import { expect, it } from 'vitest'
import type { HostView } from '../scheduler/place.ts'
import { createCandidates } from './candidates.ts'

const host = (id: string): HostView => ({
  id,
  name: id,
  arch: 'x64',
  hypervisors: [],
  cordoned: false,
  up: true,
  vcpus: 10,
  memoryMib: 1000,
  diskMib: 1000,
  usedVcpus: 0,
  usedMemoryMib: 0,
  usedDiskMib: 0,
})
const room = { vcpus: 1, memoryMib: 100, diskMib: 10 }

function world() {
  const state = { nowMs: 0, reads: 0, broken: false }
  const load = async () => {
    state.reads++
    if (state.broken) throw new Error('no database')
    return [host('a'), host('b')]
  }
  return { state, candidates: createCandidates(load, { monotonicMs: () => state.nowMs }) }
}

it('the host cache is read once for all requests within its lifetime, and again afterwards', async () => {
  const { state, candidates } = world()
  for (let n = 0; n < 20; n++) await candidates.list()
  expect(state.reads).toBe(1)
  state.nowMs = 251
  await candidates.list()
  expect(state.reads).toBe(2)
})

it('the host cache subtracts taken resources until the next read', async () => {
  const { state, candidates } = world()
  await candidates.list()
  candidates.take('a', room)
  candidates.take('a', room)
  const used = async (fresh = false) =>
    (await candidates.list(fresh)).map(one => [one.id, one.usedVcpus, one.usedMemoryMib, one.usedDiskMib])
  expect(await used()).toEqual([
    ['a', 2, 200, 20],
    ['b', 0, 0, 0],
  ])
  expect(await used(true)).toEqual([
    ['a', 0, 0, 0],
    ['b', 0, 0, 0],
  ])
  expect(state.reads).toBe(2)
  candidates.forget()
  await candidates.list()
  expect(state.reads).toBe(3)
})

it('the host cache does not store a failed read', async () => {
  const { state, candidates } = world()
  state.broken = true
  await expect(candidates.list()).rejects.toThrow('no database')
  state.broken = false
  expect(await candidates.list()).toHaveLength(2)
})
