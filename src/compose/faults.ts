/** A position in a compose file. */
export interface Place {
  readonly file: string
  readonly line: number
  readonly column: number
}

export interface Fault {
  readonly at: Place
  /** Path of the key with the error, such as `services.web.build`; empty for a syntax error. */
  readonly field: string
  readonly message: string
}

/** Formats an error like compilers do, so that editors and terminals turn the position into a link. */
export const faultText = ({ at, field, message }: Fault) =>
  `${at.file}:${at.line}:${at.column}: ${field === '' ? '' : `${field} `}${message}`

/** Thrown for invalid files. The message has one line per error. */
export class Invalid extends Error {
  readonly faults: readonly Fault[]

  constructor(faults: readonly Fault[]) {
    super(faults.map(faultText).join('\n'))
    this.name = 'Invalid'
    this.faults = faults
  }
}
