import { request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../base/endpoint.ts'

export interface HealthTiming {
  /**
   * Interval between probes after a start. The first few intervals are shorter; later ones are longer while the app
   * stays unhealthy.
   */
  readonly startingMs: number
  /** Interval between probes while the VM is healthy. */
  readonly steadyMs: number
  /** Interval after `calmAfter` passed probes in a row, when the VM is likely to stay healthy. */
  readonly calmMs: number
  readonly calmAfter: number
  /** Interval after a probe of a healthy VM has failed. Also the longest interval while the VM is not healthy. */
  readonly failingMs: number
  /** Number of consecutive failed probes after which a healthy VM becomes unhealthy. */
  readonly failuresAllowed: number
}

/**
 * An idle gVisor sandbox uses 5 ms of CPU time per probe. With a probe every five seconds, probes would use half of its
 * total CPU time.
 */
export const healthTiming: HealthTiming = {
  startingMs: 25,
  steadyMs: 5_000,
  calmMs: 10_000,
  calmAfter: 12,
  failingMs: 1_000,
  failuresAllowed: 3,
}

const firstPauseMs = 2

/** Probes the app once, and returns whether it is healthy. Never throws. */
export type Probe = (signal: AbortSignal) => Promise<boolean>

/** Probes until the signal aborts, and reports each change. */
export async function watchHealth(
  probe: Probe,
  healthyNow: boolean,
  timing: HealthTiming,
  onChange: (healthy: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  let healthy = healthyNow
  let failures = 0
  let passes = 0
  while (!signal.aborted) {
    const passed = await probe(signal)
    if (signal.aborted) return
    failures = passed ? 0 : failures + 1
    passes = passed ? passes + 1 : 0
    const now: boolean = passed || (healthy && failures < timing.failuresAllowed)
    if (now !== healthy) onChange(now)
    healthy = now
    await sleep(probePauseMs(timing, { healthy, failures, passes }), undefined, { signal }).catch(() => undefined)
  }
}

interface ProbeHistory {
  readonly healthy: boolean
  /** Number of failed or passed probes in a row until now; one of the two is 0. */
  readonly failures: number
  readonly passes: number
}

/** Returns the pause before the next probe, in milliseconds. */
export function probePauseMs(timing: HealthTiming, { healthy, failures, passes }: ProbeHistory): number {
  if (healthy && failures > 0) return timing.failingMs
  if (healthy) return passes >= timing.calmAfter ? timing.calmMs : timing.steadyMs
  // After a start, the first probes follow each other almost immediately.
  const soon = Math.min(timing.startingMs, firstPauseMs * 2 ** failures)
  // The longer an app is unhealthy, the less often it is probed.
  return Math.min(timing.failingMs, soon * (1 + failures / 40))
}

/**
 * Connection timeout in milliseconds. It is short for the first probes: if the guest missed a SYN during its start, TCP
 * would resend it only after 1 s.
 */
const connectMs = (tries: number) => Math.min(250, 30 * 2 ** tries)
const answerMs = 4_000

/** The app's endpoint, and the source address of probes (undefined: any). */
export interface ProbePath {
  readonly to: Endpoint
  readonly from: string | undefined
}

const socketOf = ({ to, from }: ProbePath, tries: number) => ({
  host: to.host,
  port: to.port,
  timeout: connectMs(tries),
  ...(from === undefined ? {} : { localAddress: from }),
})

/** Probes over HTTP. 2xx and 3xx are healthy (contract, `healthCheckPath`); an invalid path is not. */
export function httpProbe(way: ProbePath, path: string): Probe {
  let tries = 0
  return signal => askOnce(way, path, tries++, signal).catch(() => false)
}

/** Limits on time and size of a whole response, because a guest may send headers endlessly. */
const wholeAnswerMs = 5_000
const maxHeaderBytes = 16 << 10

function askOnce(way: ProbePath, path: string, tries: number, signal: AbortSignal): Promise<boolean> {
  return new Promise(resolve => {
    const asked = request({
      ...socketOf(way, tries),
      path,
      agent: false,
      signal: AbortSignal.any([signal, AbortSignal.timeout(wholeAnswerMs)]),
      maxHeaderSize: maxHeaderBytes,
      headers: { 'user-agent': 'mote-health' },
    })
    // A guest may send informational responses (1xx) endlessly.
    asked.on('information', () => asked.destroy())
    asked.on('socket', socket => socket.once('connect', () => asked.setTimeout(answerMs)))
    asked.on('timeout', () => asked.destroy())
    asked.on('error', () => resolve(false))
    asked.on('response', response => {
      const { statusCode = 0 } = response
      response.destroy()
      resolve(statusCode >= 200 && statusCode < 400)
    })
    asked.end()
  })
}

export function tcpProbe(way: ProbePath): Probe {
  let tries = 0
  return () =>
    new Promise(resolve => {
      const socket = connect(socketOf(way, tries++))
      const end = (passed: boolean) => {
        socket.destroy()
        resolve(passed)
      }
      socket.once('connect', () => end(true))
      socket.once('timeout', () => end(false))
      socket.once('error', () => end(false))
    })
}
