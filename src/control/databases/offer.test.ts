import { afterAll, expect, test } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { recordHeartbeat } from '../hosts/index.ts'
import { availableVersions, offeredVersions } from './offer.ts'
import { shapeOf } from './rules.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())

test.each([
  ['without hosts: the configured versions', [15, 16], [], [15, 16]],
  ['a host that does not report its images offers all versions', [15, 16], [null], [15, 16]],
  ['only versions that a host has, in configured order', [16, 14, 15], [['postgres:15'], ['postgres:14']], [14, 15]],
  ['not a version that is not configured', [15], [['postgres:15', 'postgres:17']], [15]],
  ['none', [15], [[]], []],
])('available versions: %s', (_what, configured, hosts, offered) => {
  expect(availableVersions('postgres', configured, hosts)).toEqual(offered)
})

test('offers the versions whose images the hosts report in heartbeats, and names them in a refusal', async () => {
  const host = await world.addHost()
  const has = (databaseImages: string[]) => recordHeartbeat(world.db, { ...host.heartbeat(), databaseImages }, 1)
  await has(['postgres:15'])
  const offered = await offeredVersions(world.db, 'postgres', [16, 15])
  expect(offered).toEqual([15])
  expect(shapeOf({ engine: 'postgres' }, offered).version).toBe(15)
  expect(() => shapeOf({ engine: 'postgres', postgres_version: 16 }, offered)).toThrow(
    expect.objectContaining({
      details: [expect.objectContaining({ field: 'postgres_version', message: expect.stringContaining('15') })],
    }),
  )
  await has([])
  await expect(offeredVersions(world.db, 'postgres', [16, 15])).rejects.toMatchObject({
    code: 'no_capacity',
    message: expect.stringContaining('mote image build postgres --version 16'),
  })
})
