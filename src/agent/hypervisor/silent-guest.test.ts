import { expect, test } from 'vitest'
import { causeOfSilence, explainSilence } from './silent-guest.ts'

test.each([
  [
    'a panic takes precedence over later lines',
    { console: 'Kernel panic - not syncing: VFS\ntsc: x', busy: 1 },
    'kernel',
    'VFS',
  ],
  [
    'a last line about a clock means the clock',
    { console: 'Linux version\ntsc: Fast TSC calibration failed', busy: 1 },
    'clock',
    'calibration',
  ],
  ['any other last line means the kernel', { console: 'Freeing unused kernel memory', busy: 1 }, 'kernel', 'Freeing'],
  ['silent and idle means the VMM', { console: '', busy: 0.02 }, 'vmm', 'does not run'],
  ['silent and busy means the CPU', { console: ' \n', busy: 0.9 }, 'cpu', 'processor runs'],
] as const)('the cause that is reported for a guest that does not start: %s', (_title, guest, cause, words) => {
  const found = causeOfSilence(guest)
  expect(found.cause).toBe(cause)
  expect(found.says).toContain(words)
  expect(explainSilence(guest)).toMatch(/next: .*mote doctor/)
})
