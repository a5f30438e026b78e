import { afterAll, expect, test } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { recordHeartbeat } from '../hosts/index.ts'
import { availableVersions, offeredVersions } from './offer.ts'
import { shapeOf } from './rules.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())

test.each([
  ['without hosts, all configured versions are available', [15, 16], [], [15, 16]],
  ['with a host that does not report its images, all configured versions are available', [15, 16], [null], [15, 16]],
  [
    'versions without an image on a host are not available, and the configured order is kept',
    [16, 14, 15],
    [['postgres:15'], ['postgres:14']],
    [14, 15],
  ],
  ['a version that is not configured is not available', [15], [['postgres:15', 'postgres:17']], [15]],
  ['if no host has an image, no version is available', [15], [[]], []],
])('%s', (_what, configured, hosts, offered) => {
  expect(availableVersions('postgres', configured, hosts)).toEqual(offered)
})

test('new databases can have the versions whose images the hosts report in heartbeats, and a refusal names these versions', async () => {
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
