import { ImageError } from './image-error.ts'

/** A boot that hangs or breaks is tried once more; the second time it is the guest's own fault. */
export const bootAttempts = 2

/** Why a step failed: `code` is stable, the message is for people. */
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

/** No repetition mends a reference that names nothing or an image that cannot run. */
export function isFinal(error: unknown): boolean {
  return error instanceof ImageError || (error instanceof StepError && finalCodes.has(error.code))
}

const finalCodes: ReadonlySet<string> = new Set([
  'unsupported_by_hypervisor',
  ...['snapshot_missing', 'snapshot_damaged', 'snapshot_mismatch', 'snapshot_base_missing'],
])

/** Tenants read it: where something is on this host is for the log of the agent. */
function messageOf(error: unknown): string {
  return withoutPaths(error instanceof Error ? error.message : String(error))
}

/** Absolute paths become their last part. URLs stay. */
export const withoutPaths = (text: string) => text.replaceAll(/(?<![\w:/.])\/(?:[\w.@+~-]+\/)+([\w.@+~-]*)/g, '$1')
