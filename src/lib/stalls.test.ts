import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { type Stall, watchStalls } from './stalls.ts'

/** Blocks the event loop by using this much CPU time. */
const compute = (ms: number) => {
  const began = process.threadCpuUsage()
  for (let used = 0; used < ms * 1000; ) {
    const { user, system } = process.threadCpuUsage(began)
    used = user + system
  }
}
/** Blocks the event loop without using CPU time, like a slow disk. */
const hang = (ms: number) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

async function stallOf(block: (ms: number) => void): Promise<Stall> {
  const reported: Stall[] = []
  const watch = watchStalls({ thresholdMs: 250, onStall: stall => reported.push(stall) })
  // The measurement starts with the first wake-up of the event loop.
  await sleep(50)
  watch.longestMs()
  await sleep(50)
  block(400)
  await sleep(50)
  const ms = watch.longestMs()
  expect(ms).toBeGreaterThan(350)
  expect(reported.map(stall => stall.ms)).toEqual([Math.round(ms)])
  expect(watch.stalls()).toBe(1)
  expect(watch.longestMs()).toBeLessThan(ms)
  watch.stop()
  const [stall] = reported
  if (!stall) throw new Error('BUG: no stall')
  return stall
}

it('a stall by computation is reported once, with its CPU time', async () => {
  expect((await stallOf(compute)).cpuMs).toBeGreaterThan(350)
})

it('a stall in which the thread only waits has little CPU time', async () => {
  expect((await stallOf(hang)).cpuMs).toBeLessThan(200)
})

it.skipIf(!existsSync('/usr/bin/taskset') || process.platform !== 'linux')(
  'the time in which another process uses the core counts as waiting (needs taskset)',
  async () => {
    const module = fileURLToPath(new URL('thread-times.ts', import.meta.url))
    const race = `
      const { openThreadClock } = await import(${JSON.stringify(module)})
      const clock = openThreadClock()
      const { cpuMs, waitedMs } = clock.read()
      for (let used = 0; used < 300; ) used = clock.read().cpuMs - cpuMs
      console.log(clock.read().waitedMs - waitedMs)
      process.exit()`
    const [, core = '0'] = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
    const start = () => spawn('taskset', ['-c', core, process.execPath, '--input-type=module', '-e', race])
    const both = [start(), start()].map(async child => {
      let text = ''
      child.stdout.on('data', part => (text += part))
      await once(child, 'close')
      return Number(text)
    })
    // The process that begins later shares the core during its whole 300 ms, unless the other process has already
    // exited.
    const waited = await Promise.all(both)
    expect(Math.max(...waited)).toBeGreaterThan(20)
  },
)
