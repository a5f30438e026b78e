import { expect, test } from 'vitest'
import { causeOfSilence, explainSilence } from './silent-guest.ts'

test.each([
  [
    'a panic wins over what follows it',
    { console: 'Kernel panic - not syncing: VFS\ntsc: x', busy: 1 },
    'kernel',
    'VFS',
  ],
  [
    'the last line names a clock',
    { console: 'Linux version\ntsc: Fast TSC calibration failed', busy: 1 },
    'clock',
    'calibration',
  ],
  ['any other last line is the kernel', { console: 'Freeing unused kernel memory', busy: 1 }, 'kernel', 'Freeing'],
  ['silent and idle is the VMM', { console: '', busy: 0.02 }, 'vmm', 'does not run'],
  ['silent and busy is the CPU', { console: ' \n', busy: 0.9 }, 'cpu', 'processor runs'],
] as const)('%s', (_title, guest, cause, words) => {
  const found = causeOfSilence(guest)
  expect(found.cause).toBe(cause)
  expect(found.says).toContain(words)
  expect(explainSilence(guest)).toMatch(/next: .*mote doctor/)
})
