/**
 * Why an archive is refused. The code that reads uploads, build results and images has its own message for each value.
 */
export type ArchiveFaultCode = 'unreadable' | 'too_large' | 'too_many' | 'too_slow' | 'refused'

/** Thrown for an archive that is damaged, too large or not supported. Reading it again would give the same result. */
export class ArchiveFault extends Error {
  readonly code: ArchiveFaultCode
  constructor(code: ArchiveFaultCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'ArchiveFault'
    this.code = code
  }
}

export const unreadable = (message: string) => new ArchiveFault('unreadable', message)
