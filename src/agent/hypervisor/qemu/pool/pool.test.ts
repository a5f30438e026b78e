import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../../../../test/support/wait.ts'
import { testDir } from '../../../../../test/support/agent/agent.ts'
import { openPool, type PoolDeps } from './pool.ts'
import type { WaitingVmm } from './waiting.ts'

/** Processes that wait, as far as a pool can see. */
function host() {
  const made: Array<WaitingVmm & { readonly die: (error: Error) => void; readonly hasEnded: () => boolean }> = []
  const start = async (): Promise<WaitingVmm> => {
    const ended = Promise.withResolvers<never>()
    let over = false
    const vmm = {
      identity: { pid: made.length + 1, startTicks: 1 },
      ended: ended.promise,
      become: () => Promise.reject(new Error('nobody asks it to')),
      async end() {
        over = true
      },
      die: ended.reject,
      hasEnded: () => over,
    }
    made.push(vmm)
    return vmm
  }
  return { made, start }
}

async function poolOf(change: Partial<PoolDeps> = {}) {
  const dir = await testDir()
  const { made, start } = host()
  const errors: string[] = []
  const pool = openPool({
    size: 2,
    dir: join(dir.path, 'waiting'),
    start,
    madeOf: [],
    quietMs: 5,
    ...change,
    onError: error => errors.push(String(error)),
  })
  const full = (count = 2, timeoutMs = 20_000) =>
    until(() => pool.waiting === count, { what: `${count} that wait`, timeoutMs, everyMs: 2 })
  return {
    pool,
    made,
    errors,
    full,
    dir: dir.path,
    async [Symbol.asyncDispose]() {
      await pool.close()
      await dir[Symbol.asyncDispose]()
    },
  }
}

test('it is empty until it begins, then full, and each that waits is used once', async () => {
  await using all = await poolOf()
  const { pool, made, full } = all
  expect(pool.take()).toBeUndefined()
  pool.begin()
  await full()
  const taken = [pool.take(), pool.take(), pool.take()]
  expect(taken).toEqual([made[0], made[1], undefined])
  await full()
  expect(made).toHaveLength(4)
  await pool.close()
  expect(made.map(({ hasEnded }) => hasEnded())).toEqual([false, false, true, true])
})

test('none is made while a start is under way, nor in the quiet after it', async () => {
  await using all = await poolOf({ quietMs: 100 })
  const { pool, full } = all
  const first = pool.hold()
  const second = pool.hold()
  pool.begin()
  first[Symbol.dispose]()
  await expect(full(1, 300)).rejects.toThrow('1 that wait')
  const began = performance.now()
  second[Symbol.dispose]()
  await full()
  expect(performance.now() - began).toBeGreaterThanOrEqual(99)
})

test('one that dies while it waits is replaced, later and later; the first failure of a series is told', async () => {
  await using all = await poolOf({ size: 1 })
  const { pool, made, errors, full } = all
  pool.begin()
  const pauses: number[] = []
  for (const n of [0, 1, 2]) {
    await full(1)
    const began = performance.now()
    made[n]?.die(new Error(`death ${n}`))
    await until(() => made.length === n + 2, { what: 'another', everyMs: 2 })
    pauses.push(performance.now() - began)
  }
  expect(errors).toEqual(['Error: death 0'])
  // Half of 500, 1,000 and 2,000 ms at least.
  for (const [n, ms] of pauses.entries()) expect(ms).toBeGreaterThan(240 * 2 ** n)
  await full(1)
  expect(pool.take()).toBe(made[3])
  await full(1)
  made[4]?.die(new Error('another series'))
  await until(() => errors.length === 2, { what: 'what it said' })
})

test('one that cannot be made keeps nobody from starting', async () => {
  await using all = await poolOf({ start: () => Promise.reject(new Error('no compiler')) })
  all.pool.begin()
  await until(() => all.errors.length === 1, { what: 'what it said' })
  expect(all.pool.take()).toBeUndefined()
})

test('after an upgrade of QEMU those that wait are ended, and others made', async () => {
  await using dir = await testDir()
  const program = join(dir.path, 'qemu')
  await writeFile(program, 'old')
  await using all = await poolOf({ madeOf: [program, join(dir.path, 'is not there')] })
  const { pool, made, full } = all
  pool.begin()
  await full()
  await writeFile(program, 'new one')
  expect(pool.take()).toBeUndefined()
  expect(made.map(({ hasEnded }) => hasEnded())).toEqual([true, true])
  await full()
  expect(pool.take()).toBe(made[2])
})
