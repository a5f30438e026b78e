/** Where something is in a file, and what is wrong there. */
export interface Place {
  readonly file: string
  readonly line: number
  readonly column: number
}

export interface Fault {
  readonly at: Place
  /** Such as `services.web.build`; empty for a syntax error. */
  readonly field: string
  readonly message: string
}

/** The form of compilers, which editors and terminals turn into links. */
export const faultText = ({ at, field, message }: Fault) =>
  `${at.file}:${at.line}:${at.column}: ${field === '' ? '' : `${field} `}${message}`

/** The files cannot be understood. The message has a line for each fault. */
export class Invalid extends Error {
  readonly faults: readonly Fault[]

  constructor(faults: readonly Fault[]) {
    super(faults.map(faultText).join('\n'))
    this.name = 'Invalid'
    this.faults = faults
  }
}
