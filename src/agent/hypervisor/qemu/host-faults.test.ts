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
  ['a system call', systemError('ENOSPC'), true],
  ['a quota', systemError('EDQUOT'), true],
  ['a program', new CommandError('cp', 1, "cp: error writing 'x': No space left on device"), true],
  ['the cause of another error', new Error('it did not start', { cause: systemError('ENOSPC') }), true],
  ['another system call', systemError('ENOENT'), false],
  ['another program', new CommandError('cp', 1, "cp: cannot stat 'x'"), false],
  ['no error', 'ENOSPC', false],
])('tells a full disk from other faults: %s', (_what, error, full) => {
  expect(isDiskFull(error)).toBe(full)
  expect(isNetworkFault(error)).toBe(false)
})

it('other step errors are not network faults', () => {
  expect(isNetworkFault(new StepError('boot_failed', 'no'))).toBe(false)
})
