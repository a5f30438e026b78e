import { CommandError } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { StepError } from './step-error.ts'

/**
 * True for a full disk (ENOSPC) or quota (EDQUOT), reported to this process or by a program that it ran (strerror(3)).
 */
export function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (hasCode(error, 'ENOSPC') || hasCode(error, 'EDQUOT')) return true
  if (error instanceof CommandError && /no space left on device|disk quota exceeded/i.test(error.stderr)) return true
  return isDiskFull(error.cause)
}

/** Returns the error for a full disk. A retry may find room. @param what the work that needs room */
export const hostFull = (what: string, cause: unknown) =>
  new StepError('host_full', `the host has no room to ${what}`, { cause })
