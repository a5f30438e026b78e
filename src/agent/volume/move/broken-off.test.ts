/** Digests of received volumes, and canceled transfers. */
import { existsSync } from 'node:fs'
import { open, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.ts'
import { createKeyedMutex } from '../../../lib/keyed-mutex.ts'
import { dirPool } from '../../disk/dir-pool.ts'
import { createHolders } from '../../disk/holders.ts'
import type { VolumePool } from '../../disk/pool.ts'
import { openWire } from '../../hypervisor/transfer/wire.ts'
import { testDir } from '../../../../test/support/agent/agent.ts'
import { volumeStore } from '../store.ts'
import { createVolumes } from '../volumes.ts'
import { digestAt, digestOf, hashOf } from './content.ts'
import { volumeReceiver } from './receive.ts'
import { createSender, protocol } from './send.ts'

const mib = 2 ** 20
const volumeId = '0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b21'

test('a received device that is longer than the sent volume has the same digest, and a shorter device is refused', async () => {
  await using dir = await testDir()
  const path = join(dir.path, 'device')
  const [data, size] = [Buffer.alloc(1000, 'sent'), 17 * mib + 1000]
  await writeFile(path, Buffer.alloc(0))
  await truncate(path, 20 * mib)
  const file = await open(path, 'r+')
  await file.write(data, 0, data.length, 17 * mib)
  // Space that the pool added by rounding up the size, and that still has older data.
  await file.write('older', 17 * mib + 1000)
  await file.write('older', 19 * mib)
  await file.close()
  expect(await digestAt(path, size)).toBe(digestOf(size, new Map([[17 * mib, hashOf(data) ?? '']])))
  await expect(digestAt(path, 21 * mib)).rejects.toThrow('instead of at least')
})

describe('a canceled volume transfer', () => {
  test('stops writing to the pool, and creates no more snapshots', async () => {
    await using dir = await testDir()
    const [abort, kept] = [new AbortController(), new Array<string>()]
    const pool = dirPool('local', dir.path)
    const noting = { ...pool, snapshot: async (_volume: string, id: string) => void kept.push(id) }
    const receiver = volumeReceiver(noting, volumeId, abort.signal)
    const data = Buffer.alloc(1000, 'one')
    await receiver.take(mib)
    await receiver.data(0, data)
    abort.abort(new Error('nobody wants it'))
    const sent = digestOf(mib, new Map([[0, hashOf(data) ?? '']]))
    await expect(receiver.whole(sent, 's1')).rejects.toThrow('nobody wants it')
    await expect(receiver.take(mib)).rejects.toThrow('nobody wants it')
    expect(kept).toEqual([])
    await receiver.close()
  })

  test('ends before its volume is removed or received again', async () => {
    await using dir = await testDir()
    const source = dirPool('local', join(dir.path, 'source'))
    await source.create(volumeId, 32)
    await source.snapshot(volumeId, 's1')
    const [pool, acts] = [dirPool('local', join(dir.path, 'target')), new Array<string>()]
    const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const slow: VolumePool = {
      ...pool,
      async remove(id) {
        acts.push('remove')
        await pool.remove(id)
      },
      async snapshot(id, snapshotId) {
        reached.resolve()
        await gate.promise
        acts.push('snapshot')
        await pool.snapshot(id, snapshotId)
      },
    }
    const volumes = createVolumes({
      store: volumeStore(join(dir.path, 'notes')),
      pools: new Map([['local', slow]]),
      holders: createHolders(),
      mutex: createKeyedMutex(),
      log: pino({ level: 'silent' }),
      migrationHost: () => '127.0.0.1',
      isGone: async () => false,
      grow: async () => undefined,
      contentOf: async () => undefined,
      onObserved: () => undefined,
    })
    const desired = { volumeId, want: 'present', pool: 'local', sizeMib: 32 } as const
    const listening = (transferId: string) =>
      until(
        async () => {
          const { transfer } = await volumes.get(volumeId)
          return transfer?.transferId === transferId && transfer.phase === 'listening' ? transfer.uri : undefined
        },
        { what: `${transferId} listens` },
      )
    await volumes.put({ ...desired, generation: 1, incoming: { transferId: 't1' } })
    const wire = await openWire((await listening('t1')) ?? '', protocol)
    const sender = createSender(wire, { volumeId, pool: source, snapshots: ['s1'] }, () => undefined)
    sender.sendSnapshots().catch(() => undefined)
    await reached.promise
    await volumes.put({ ...desired, generation: 2, want: 'absent' })
    for (let n = 0; n < 20; n++) await setImmediate()
    expect(acts).toEqual(['remove'])
    await volumes.put({ ...desired, generation: 3, incoming: { transferId: 't2' } })
    for (let n = 0; n < 20; n++) await setImmediate()
    expect(acts).toEqual(['remove'])
    gate.resolve()
    await listening('t2')
    expect(acts).toEqual(['remove', 'snapshot', 'remove'])
    expect(existsSync(join(dir.path, 'target', `${volumeId}.snapshots`))).toBe(false)
    volumes.stop()
    wire.close()
  })
})
