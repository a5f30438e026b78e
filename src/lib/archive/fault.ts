/** Why an archive is refused. The readers of uploads, build results and images translate it into their own messages. */
export type ArchiveFaultCode = 'unreadable' | 'too_large' | 'too_many' | 'too_slow' | 'refused'

/** A fault of the archive itself: reading it again gives the same result. */
export class ArchiveFault extends Error {
  readonly code: ArchiveFaultCode
  constructor(code: ArchiveFaultCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'ArchiveFault'
    this.code = code
  }
}

export const unreadable = (message: string) => new ArchiveFault('unreadable', message)
