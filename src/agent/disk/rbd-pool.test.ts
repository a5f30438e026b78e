import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { contentSize, mib } from '../../../test/support/agent/pool-files.ts'
import { rbdOptions } from '../../../test/support/agent/pool-kinds.ts'
import { fakeCluster } from '../../../test/support/fake-rbd.ts'
import { rbdPool } from './rbd-pool.ts'

describe('a pool in Ceph', () => {
  test('a host with a newer attachment fences the previous host, which cannot open the volume again', async () => {
    await using dir = await testDir()
    const cluster = fakeCluster(join(dir.path, 'cluster'))
    const [one, two] = ['one', 'two'].map(host =>
      rbdPool({ ...rbdOptions(dir.path), run: cluster.client(host), patienceMs: 300 }),
    )
    await one!.create('v1', 16)
    await one!.open('v1', 1)
    await two!.open('v1', 2)
    // Host `one` did not close the image within `patienceMs`, so its lock was broken.
    expect([...cluster.blocklist]).toEqual(['client.one'])
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
    await one!.close('v1')
    await expect(one!.open('v1', 1)).rejects.toMatchObject({ code: 'stale_volume_generation' })
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
  })

  test('a host that opens a volume for reading fences no other host, and is refused during a write and after a newer attachment', async () => {
    await using dir = await testDir()
    const cluster = fakeCluster(join(dir.path, 'cluster'))
    const at = (host: string) => rbdPool({ ...rbdOptions(dir.path), run: cluster.client(host), patienceMs: 300 })
    const [one, two, writer] = [at('one'), at('two'), at('writer')]
    await one.create('v1', 16)
    await writer.open('v1', 1, 'write')
    await expect(one.open('v1', 1, 'read')).rejects.toMatchObject({ code: 'volume_in_use' })
    await writer.close('v1')
    const files = [await one.open('v1', 1, 'read'), await two.open('v1', 1, 'read')]
    expect(await Promise.all(files.map(file => contentSize(file)))).toEqual([16 * mib, 16 * mib])
    expect(cluster.images.get('v.v1')?.locker).toBeUndefined()
    await one.close('v1')
    await two.close('v1')
    // A host that opens the volume for writing still fences the previous writer.
    await writer.open('v1', 2, 'write')
    await two.open('v1', 3, 'write')
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
    expect([...cluster.blocklist]).toEqual(['client.writer'])
    await expect(one.open('v1', 2, 'read')).rejects.toMatchObject({ code: 'stale_volume_generation' })
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
  })
})

describe('opening an RBD image that another host is about to close', () => {
  test('waits for the close, because breaking the lock would fence the other host off all its images', async () => {
    await using dir = await testDir()
    const cluster = fakeCluster(join(dir.path, 'cluster'))
    const asked = { locks: 0 }
    const leaving = rbdPool({ ...rbdOptions(dir.path), run: cluster.client('leaving') })
    const coming = rbdPool({
      ...rbdOptions(dir.path),
      run: async (program, args) => {
        // The other host closes the image between two checks of its lock.
        if (args.includes('lock') && ++asked.locks === 2) await leaving.close('v1')
        return cluster.client('coming')(program, args)
      },
    })
    await leaving.create('v1', 16)
    await leaving.open('v1', 1)
    await coming.open('v1', 2)
    expect([...cluster.blocklist]).toEqual([])
    expect(cluster.images.get('v.v1')?.locker).toBe('client.coming')
  })
})

describe('an RBD image that two hosts open at the same time', () => {
  // The host with the newer attachment opens the image before each possible command of the host with the older
  // attachment.
  test.each([
    ['lock ls', 2],
    ['lock ls', 3],
    ['image-meta get', 2],
    ['image-meta set', 1],
  ])(
    'is opened by the host with the newer attachment, even between two commands of the other host: before "%s" number %i',
    async (moment, count) => {
      await using dir = await testDir()
      const cluster = fakeCluster(join(dir.path, 'cluster'))
      const at = (host: string) => rbdPool({ ...rbdOptions(dir.path), run: cluster.client(host) })
      const [before, newer] = [at('before'), at('newer')]
      const asked = { times: 0 }
      const older = rbdPool({
        ...rbdOptions(dir.path),
        run: async (program, args) => {
          if (args.slice(0, 2).join(' ') === moment && ++asked.times === count) {
            await before.close('v1')
            await newer.open('v1', 3)
          }
          return cluster.client('older')(program, args)
        },
        patienceMs: 700,
      })
      await before.create('v1', 16)
      await before.open('v1', 1)
      await expect(older.open('v1', 2)).rejects.toThrow()
      expect(asked.times).toBeGreaterThanOrEqual(count)
      expect(cluster.images.get('v.v1')?.locker).toBe('client.newer')
      expect([...cluster.blocklist]).toEqual([])
    },
  )
})
