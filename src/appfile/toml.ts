/** Parses TOML. The file is untrusted: its size is limited, and errors contain line and column. */
import { parse, TomlError } from 'smol-toml'
import type { Position } from './locate.ts'

/** Maximum size of the file: ten times that of a file with 200 variables. */
const mostFileBytes = 65_536

/** An error in a file, with its position. */
export interface FileFault extends Position {
  /** Path of the key with the error, such as `processes.web.port`; empty for a syntax error. */
  readonly field: string
  readonly message: string
}

/**
 * Thrown for an invalid file. The message has one line per error, formatted like a compiler's, so that editors and
 * terminals turn the position into a link.
 */
export class AppFileInvalid extends Error {
  readonly faults: readonly FileFault[]

  constructor(faults: readonly FileFault[], file: string) {
    super(
      faults
        .map(
          ({ line, column, field, message }) =>
            `${file}:${line}:${column}: ${field === '' ? '' : `${field} `}${message}`,
        )
        .join('\n'),
    )
    this.name = 'AppFileInvalid'
    this.faults = faults
  }
}

/** Parses a TOML file. @throws AppFileInvalid */
export function readToml(text: string, name: string): Readonly<Record<string, unknown>> {
  if (Buffer.byteLength(text) > mostFileBytes)
    throw new AppFileInvalid([at(1, 1, `The file exceeds the limit of ${mostFileBytes / 1024} KiB`)], name)
  try {
    return parse(text, { unsafeKeyBehaviour: 'throw' })
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause
    const [said = ''] = cause.message.replace('Invalid TOML document: ', '').split('\n')
    const reason = isEndOfLine(text, cause) ? said.replace(unclosed, 'a text has no closing quotation mark') : said
    throw new AppFileInvalid([at(cause.line, cause.column, `This is not valid TOML: ${reason}`)], name)
  }
}

/** Matches messages of the TOML parser for a string without a closing quotation mark. */
const unclosed = /^(?:control characters|newlines) are not allowed in strings$/

const isEndOfLine = (text: string, { line, column }: Position) => (text.split(/\r?\n/)[line - 1] ?? '').length < column

const at = (line: number, column: number, message: string): FileFault => ({ line, column, field: '', message })
