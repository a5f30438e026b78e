/** Why an archive is refused; the reader of an upload, a build's result or an image puts it into words of its own. */
export type ArchiveFaultCode = 'unreadable' | 'too_large' | 'too_many' | 'too_slow' | 'refused'

/** The archive's own fault: reading it again gives the same. */
export class ArchiveFault extends Error {
  readonly code: ArchiveFaultCode
  constructor(code: ArchiveFaultCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'ArchiveFault'
    this.code = code
  }
}

export const unreadable = (message: string) => new ArchiveFault('unreadable', message)
