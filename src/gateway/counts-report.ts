/**
 * Sends request counts to the control plane. A report is repeated until it is accepted, while the counter collects the
 * next one. While the control plane is unavailable, counts are reported later and for longer periods, but none are
 * lost.
 */
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import {
  type CountsReport,
  canaryReportMs,
  countsReportMs,
  countsSubject,
  mostCountedApps,
} from '../contract/request-counts.ts'
import { newId } from '../lib/ids.ts'
import type { RequestCounter } from './request-counts.ts'

const answerTimeoutMs = 5000

export interface CountsReporter {
  /** Reports the counts since the last report. Returns false if the control plane did not accept all of them. */
  flush(): Promise<boolean>
  /** Stops the timer, and reports the remaining counts. */
  stop(): Promise<void>
}

export function startCountsReporter(
  { bus, log }: { readonly bus: Bus; readonly log: Logger },
  counter: RequestCounter,
  everyMs = countsReportMs,
): CountsReporter {
  const reporterId = newId()
  let seq = 0
  let pending: CountsReport[] = []
  let flushing: Promise<boolean> | undefined
  const send = async () => {
    if (pending.length === 0) {
      const apps = counter.take()
      const { canaries, vms } = counter.attempts.take()
      for (let at = 0; at < Math.max(apps.length, canaries.length, vms.length); at += mostCountedApps) {
        const part = canaries.slice(at, at + mostCountedApps)
        const partOfVms = vms.slice(at, at + mostCountedApps)
        pending.push({
          reporterId,
          seq: ++seq,
          atMs: Date.now(),
          apps: apps.slice(at, at + mostCountedApps),
          ...(part.length > 0 ? { canaries: part } : {}),
          ...(partOfVms.length > 0 ? { vms: partOfVms } : {}),
        })
      }
    }
    for (const report of pending) {
      await bus.request(countsSubject, report, { timeoutMs: answerTimeoutMs })
      pending = pending.filter(one => one !== report)
    }
    return true
  }
  const flush = () => {
    flushing ??= send()
      .catch((err: unknown) => {
        log.debug({ err }, 'the control plane did not accept the request counts; they are sent again')
        return false
      })
      .finally(() => (flushing = undefined))
    return flushing
  }
  const timer = setInterval(() => void flush(), everyMs)
  timer.unref()
  const canaryTimer = setInterval(() => {
    if (counter.attempts.hasCanary()) void flush()
  }, canaryReportMs)
  canaryTimer.unref()
  return {
    flush,
    async stop() {
      clearInterval(timer)
      clearInterval(canaryTimer)
      // Flush twice: the first flush may only repeat an earlier report.
      if (await flush()) await flush()
    },
  }
}
