import { expect, it } from 'vitest'
import { createCandidates } from './candidates.ts'
import type { HostRow } from './store.ts'

const host = (id: string): HostRow => ({
  ...{ id, name: id, incarnation: '', version: '', arch: 'x64', network: 'fake', hypervisors: [] },
  ...{ vcpus: 10, memoryMib: 1000, diskMib: 1000, usedVcpus: 0, usedMemoryMib: 0, usedDiskMib: 0 },
  ...{ cordoned: false, draining: false, suspectedAt: null, lostAt: null, lastSeenAt: new Date(0) },
  ...{ createdAt: new Date(0), up: true, vms: 0, strays: 0 },
})
const room = { vcpus: 1, memoryMib: 100, diskMib: 10, deploymentId: 'd' }

function world() {
  const state = { nowMs: 0, reads: 0, broken: false }
  const load = async () => {
    state.reads++
    if (state.broken) throw new Error('no database')
    return [host('a'), host('b')]
  }
  return { state, candidates: createCandidates(load, { monotonicMs: () => state.nowMs }) }
}

it('reads once for all that ask within a moment, and again afterwards', async () => {
  const { state, candidates } = world()
  await Promise.all(Array.from({ length: 20 }, () => candidates.list()))
  expect(state.reads).toBe(1)
  state.nowMs = 251
  await candidates.list()
  expect(state.reads).toBe(2)
})

it('counts what was proposed until it can be read, but not for whoever found no room by that', async () => {
  const { state, candidates } = world()
  await candidates.list()
  candidates.propose('a', room)
  candidates.propose('a', room)
  expect((await candidates.list()).map(one => [one.id, one.usedVcpus, one.usedMemoryMib, one.usedDiskMib])).toEqual([
    ['a', 2, 200, 20],
    ['b', 0, 0, 0],
  ])
  expect([...candidates.proposedFor('d')]).toEqual(['a'])
  expect((await candidates.list(true))[0]?.usedVcpus).toBe(0)
  expect((await candidates.list())[0]?.usedVcpus).toBe(2)
  state.nowMs = 500
  expect([...candidates.proposedFor('d')]).toEqual([])
  expect((await candidates.list())[0]?.usedVcpus).toBe(0)
  expect(state.reads).toBe(3)
  candidates.forget()
  await candidates.list()
  expect(state.reads).toBe(4)
})

it('does not remember a read that failed', async () => {
  const { state, candidates } = world()
  state.broken = true
  await expect(candidates.list()).rejects.toThrow('no database')
  state.broken = false
  expect(await candidates.list()).toHaveLength(2)
})
