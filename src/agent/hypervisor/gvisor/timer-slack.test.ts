import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { normalSlackNs, setTimerSlack, slackMeter } from './timer-slack.ts'

/** Passes one reading per second to a meter, and returns the timer slack after each reading, in milliseconds. */
function readings(uses: readonly { readonly cpu?: number; readonly bytes?: number }[]): number[] {
  const meter = slackMeter()
  let [cpuSeconds, rxBytes] = [0, 0]
  return uses.map(({ cpu = 0.03, bytes = 0 }, second) => {
    cpuSeconds += cpu
    rxBytes += bytes
    return meter({ cpuSeconds, rxBytes, txBytes: 0 }, second * 1000) / 1e6
  })
}
const idle = (seconds: number, cpu = 0.03) => Array.from({ length: seconds }, () => ({ cpu }))

describe('timer slack of a sandbox', () => {
  it('grows after the sandbox was idle for 5 s, and again after a minute', () => {
    const slack = readings([...idle(6), ...idle(60, 0.005)])
    expect(slack.slice(0, 5)).toEqual(Array(5).fill(0.05))
    expect(slack[5]).toBe(20)
    expect(slack.slice(5, 60)).toEqual(Array(55).fill(20))
    expect(slack.slice(60)).toEqual(Array(6).fill(60))
  })

  it.each([
    ['traffic', { cpu: 0.005, bytes: 10_000 }],
    ['a busy program', { cpu: 0.5 }],
  ])('returns to normal within one reading because of %s', (_, use) => {
    expect(readings([...idle(6), ...idle(10, 0.005), use]).at(-1)).toBe(normalSlackNs / 1e6)
  })

  it('returns to normal within five readings because of a program that takes 3 % of a core', () => {
    expect(readings([...idle(6), ...idle(10, 0.005), ...idle(5)]).at(-1)).toBe(normalSlackNs / 1e6)
  })

  it('grows on a slow host, where an idle sandbox takes 8 % of a core and a health check another 12 %', () => {
    const seconds = (cpu: number, check: number) => [...idle(4, cpu), { cpu: check }]
    const withSlack = Array.from({ length: 20 }, () => seconds(0.014, 0.13)).flat()
    const slack = readings([...seconds(0.08, 0.2), { cpu: 0.08 }, ...withSlack])
    expect(slack.slice(0, 5)).toEqual(Array(5).fill(0.05))
    expect(slack.slice(5, 60)).toEqual(Array(55).fill(20))
    expect(slack.at(-1)).toBe(60)
  })

  it('grows again after a pause of the VM on a slow host', () => {
    const slack = readings([...idle(6, 0.08), { cpu: 0.5 }, ...idle(20, 0), ...idle(60, 0.08)])
    expect(slack.slice(27)).toContain(20)
  })

  it('is tried less and less often for a program that always takes 10 % of a core', () => {
    const slack = readings(idle(3600, 0.1))
    const isTry = (at: number) => slack[at] === 20 && slack[at - 1] === 0.05
    const tries = slack.flatMap((_, at) => (isTry(at) ? [at] : []))
    expect(tries.length).toBeGreaterThan(3)
    expect(tries.length).toBeLessThan(15)
    expect(slack.filter(ms => ms > 0.05).length).toBeLessThan(60)
  })

  it('stays normal while a program computes or requests arrive', () => {
    expect(readings(idle(20, 0.2))).toEqual(Array(20).fill(0.05))
    expect(readings(Array.from({ length: 20 }, () => ({ bytes: 8_000 })))).toEqual(Array(20).fill(0.05))
  })
})

it('setTimerSlack sets the timer slack of a process, and ignores a process that has exited', async () => {
  const child = spawn('sleep', ['60'])
  const read = () => Number(readFileSync(`/proc/${child.pid}/timerslack_ns`, 'utf8'))
  try {
    setTimerSlack(child.pid ?? 0, 20_000_000)
    // Setting the slack of another process needs CAP_SYS_NICE.
    expect(read()).toBe(process.getuid?.() === 0 ? 20_000_000 : normalSlackNs)
  } finally {
    child.kill()
    await once(child, 'exit')
  }
  setTimerSlack(child.pid ?? 0, normalSlackNs)
})
