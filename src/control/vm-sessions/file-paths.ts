/** Paths in a VM. The kernel takes any bytes but NUL; JSON and URLs have text, so names that are not UTF-8 are percent-encoded. */
import { basename } from 'node:path'
import { encodeBytes } from '../../lib/words.ts'
import { invalidField } from '../http/errors.ts'

/** PATH_MAX of Linux, without the final NUL. */
export const maxPathBytes = 4095

export interface VmPath {
  /** With replacement characters if the path is not UTF-8. */
  readonly text: string
  readonly encoded: string
  readonly isText: boolean
}

/** @param field of the text; the encoded one has the prefix `encoded_`. @throws ApiError 400 */
export function vmPath(field: string, text: string | null | undefined, encoded: string | null | undefined): VmPath {
  if ((text == null) === (encoded == null)) throw invalidField(field, `is required, or else encoded_${field}`)
  const bytes = text == null ? decoded(`encoded_${field}`, encoded ?? '') : Buffer.from(text)
  const given = text == null ? `encoded_${field}` : field
  if (bytes[0] !== slash) throw invalidField(given, 'must begin with /')
  if (bytes.includes(0)) throw invalidField(given, 'must not contain NUL')
  if (bytes.length > maxPathBytes) throw invalidField(given, `must have at most ${maxPathBytes} bytes`)
  return pathOf(bytes)
}

export function pathOf(bytes: Buffer): VmPath {
  const text = bytes.toString()
  return { text, encoded: encodeBytes(bytes), isText: Buffer.from(text).equals(bytes) }
}

/** The path with a slash at the end, which makes the kernel follow a link. */
export const asDirectory = ({ text, encoded, isText }: VmPath): VmPath =>
  text.endsWith('/') ? { text, encoded, isText } : { text: `${text}/`, encoded: `${encoded}/`, isText }

export const nameOf = ({ text }: VmPath) => basename(text) || '/'

/** A file tool of guest/files.c with its arguments. */
export interface ToolCommand {
  readonly command: readonly string[]
  readonly encodedArguments: boolean
}

/** @param rest further arguments, without percent signs */
export function toolCommand(action: string, paths: readonly VmPath[], rest: readonly string[] = []): ToolCommand {
  // An older agent knows only text.
  const encodedArguments = paths.some(({ isText }) => !isText)
  const words = paths.map(path => (encodedArguments ? path.encoded : path.text))
  return { command: [action, ...words, ...rest], encodedArguments }
}

const slash = 0x2f

function decoded(field: string, text: string): Buffer {
  if (/%(?![0-9a-f]{2})/i.test(text)) throw invalidField(field, 'has a percent sign without two hexadecimal digits')
  const parts = text.split(/(%[0-9a-f]{2})/i)
  return Buffer.concat(parts.map((part, at) => (at % 2 === 1 ? Buffer.from(part.slice(1), 'hex') : Buffer.from(part))))
}
