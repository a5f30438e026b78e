import { expect, it } from 'vitest'
import { CommandError } from '../../../lib/exec.ts'
import { StepError } from '../../base/step-error.ts'
import { isDiskFull } from '../../base/disk-full.ts'
import { heldBy, isNetworkFault } from './host-faults.ts'

it('firewall rules that cannot be loaded cause the error network_failed with a reason', async () => {
  const cause = new CommandError('nft', 1, 'table is busy')
  const failed = await heldBy({ held: () => Promise.reject(cause) }, 'vm-1').catch((error: unknown) => error)
  expect(failed).toMatchObject({ code: 'network_failed', message: expect.stringContaining('table is busy'), cause })
  expect(isNetworkFault(failed)).toBe(true)
  await heldBy({ held: async () => undefined }, 'vm-1')
})

const systemError = (code: string) => Object.assign(new Error('no'), { code })

it.each([
  ['ENOSPC of a system call', systemError('ENOSPC'), true],
  ['EDQUOT of a system call', systemError('EDQUOT'), true],
  ['ENOSPC reported by a program', new CommandError('cp', 1, "cp: error writing 'x': No space left on device"), true],
  ['ENOSPC as the cause of another error', new Error('it did not start', { cause: systemError('ENOSPC') }), true],
  ['another error of a system call', systemError('ENOENT'), false],
  ['another error of a program', new CommandError('cp', 1, "cp: cannot stat 'x'"), false],
  ['a value that is no error', 'ENOSPC', false],
])('isDiskFull recognizes only a full disk: %s', (_what, error, full) => {
  expect(isDiskFull(error)).toBe(full)
  expect(isNetworkFault(error)).toBe(false)
})

it('a StepError of another kind is not a network fault', () => {
  expect(isNetworkFault(new StepError('boot_failed', 'no'))).toBe(false)
})
