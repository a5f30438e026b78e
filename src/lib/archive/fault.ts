/** Why an archive is refused. The readers of uploads, build results and images map the code to their own messages. */
export type ArchiveFaultCode = 'unreadable' | 'too_large' | 'too_many' | 'too_slow' | 'refused'

/** A problem of the archive itself. Reading it again would give the same result. */
export class ArchiveFault extends Error {
  readonly code: ArchiveFaultCode
  constructor(code: ArchiveFaultCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'ArchiveFault'
    this.code = code
  }
}

export const unreadable = (message: string) => new ArchiveFault('unreadable', message)
