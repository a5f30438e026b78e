import { expect, it } from 'vitest'
import { bootAttempts, StepError } from '../base/step-error.ts'
import { Retry } from './retry.ts'

/** Returns for each failure of a sequence whether it is final. */
function ends(...codes: string[]): boolean[] {
  const retry = new Retry()
  return codes.map(code => retry.failed(new StepError(code, 'no')).final)
}

it('a VM has two attempts to boot, even if other steps fail in between', () => {
  expect(bootAttempts).toBe(2)
  expect(ends('boot_failed', 'network_failed', 'boot_failed')).toEqual([false, false, true])
})

it('a fault of the host is retried indefinitely, with increasing delays', () => {
  expect(ends(...Array<string>(20).fill('network_failed'))).not.toContain(true)
  const retry = new Retry()
  const pauses = Array.from({ length: 12 }, () => {
    retry.failed(new StepError('network_failed', 'no'))
    return retry.pauseMs(1)
  })
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b))
  expect(pauses.at(-1)).toBe(30_000)
})

it('a fault that a retry cannot fix is final immediately', () => {
  expect(ends('snapshot_missing')).toEqual([true])
})

it('a failure is reported as new if it differs from the previous one', () => {
  const retry = new Retry()
  const news = ['no', 'no', 'busy', 'busy'].map(message => retry.failed(new StepError('network_failed', message)).isNew)
  expect(news).toEqual([true, false, true, false])
})

it('messages for tenants contain no host paths', () => {
  const cases = {
    "ENOENT: no such file or directory, open '/var/lib/mote/vms/a/disk.img'":
      "ENOENT: no such file or directory, open 'disk.img'",
    '/home/x/.cache/mote/oneway-6da4/oneway ended with 1: https://ghcr.io/v2/team/shop':
      'oneway ended with 1: https://ghcr.io/v2/team/shop',
    'no memory is left': 'no memory is left',
  }
  for (const [raw, reported] of Object.entries(cases)) {
    expect(StepError.of(new Error(raw)).message).toBe(reported)
    expect(StepError.wrap('boot_failed', new Error(raw)).message).toBe(reported)
  }
})
