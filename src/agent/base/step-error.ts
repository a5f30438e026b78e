import { ImageError } from './image-error.ts'

/** A boot that hangs or fails is retried once. After a second failure, the guest itself is considered faulty. */
export const bootAttempts = 2

/** Why a step failed: a stable code, and a message for people. */
export class StepError extends Error {
  readonly code: string
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'StepError'
    this.code = code
  }

  static wrap(code: string, error: unknown): StepError {
    return error instanceof StepError ? error : new StepError(code, messageOf(error), { cause: error })
  }

  static of(error: unknown): { code: string; message: string } {
    if (error instanceof StepError || error instanceof ImageError) return { code: error.code, message: error.message }
    return { code: 'step_failed', message: messageOf(error) }
  }
}

/** True for errors that a retry cannot fix, such as a missing image or an image that cannot run. */
export function isFinal(error: unknown): boolean {
  return error instanceof ImageError || (error instanceof StepError && finalCodes.has(error.code))
}

const finalCodes: ReadonlySet<string> = new Set([
  'unsupported_by_hypervisor',
  ...['snapshot_missing', 'snapshot_damaged', 'snapshot_mismatch', 'snapshot_base_missing'],
])

/** Returns the error's message without host paths, because tenants read it. The agent's log has the full error. */
function messageOf(error: unknown): string {
  return withoutPaths(error instanceof Error ? error.message : String(error))
}

/** Replaces absolute paths by their last component. URLs are unchanged. */
export const withoutPaths = (text: string) => text.replaceAll(/(?<![\w:/.])\/(?:[\w.@+~-]+\/)+([\w.@+~-]*)/g, '$1')
