import { request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../base/endpoint.ts'

export interface HealthTiming {
  /** Interval until the first probe passes. */
  readonly startingMs: number
  /** Interval while the VM is healthy. */
  readonly steadyMs: number
  /** Interval after `calmAfter` passed probes in a row. */
  readonly calmMs: number
  readonly calmAfter: number
  /** Interval after a failed probe. */
  readonly failingMs: number
  /** Consecutive failures that make a healthy VM unhealthy. */
  readonly failuresAllowed: number
}

/** A probe costs an idle sandbox 5 ms of CPU time. Every five seconds, that would be half of all its CPU time. */
export const healthTiming: HealthTiming = {
  startingMs: 25,
  steadyMs: 5_000,
  calmMs: 10_000,
  calmAfter: 12,
  failingMs: 1_000,
  failuresAllowed: 3,
}

const firstPauseMs = 2

/** Returns whether the app is healthy now. Never throws. */
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
  /** Failed and passed probes in a row until now; one of them is 0. */
  readonly failures: number
  readonly passes: number
}

/** Returns the pause before the next probe. */
export function probePauseMs(timing: HealthTiming, { healthy, failures, passes }: ProbeHistory): number {
  if (healthy && failures > 0) return timing.failingMs
  if (healthy) return passes >= timing.calmAfter ? timing.calmMs : timing.steadyMs
  // An app that has just started is probed again almost immediately.
  const soon = Math.min(timing.startingMs, firstPauseMs * 2 ** failures)
  // An app that stays unhealthy is probed less and less often.
  return Math.min(timing.failingMs, soon * (1 + failures / 40))
}

/** Connection timeout. The first attempts time out early, because TCP resends a SYN that the guest missed after 1 s. */
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

/** Limits for the whole response, because a guest may send headers endlessly. */
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
