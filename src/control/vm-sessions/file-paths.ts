/**
 * Paths in a VM. The kernel allows any bytes but NUL, whereas JSON and URLs hold text. A path that is not UTF-8 is
 * therefore percent-encoded.
 */
import { basename } from 'node:path'
import { encodeBytes } from '../../lib/words.ts'
import { invalidField } from '../http/errors.ts'

/** Linux's PATH_MAX without the terminating NUL. */
export const maxPathBytes = 4095

export interface VmPath {
  /** The path as text; bytes that are not UTF-8 are shown as replacement characters. */
  readonly text: string
  readonly encoded: string
  readonly isText: boolean
}

/**
 * Parses a path given as text or percent-encoded.
 * @param field name of the field with the text; the name of the field with the encoded path has the prefix `encoded_`
 * @throws ApiError 400
 */
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

/** Returns the path with a trailing slash, which makes the kernel follow a symbolic link. */
export const asDirectory = ({ text, encoded, isText }: VmPath): VmPath =>
  text.endsWith('/') ? { text, encoded, isText } : { text: `${text}/`, encoded: `${encoded}/`, isText }

export const nameOf = ({ text }: VmPath) => basename(text) || '/'

/** A command that runs a file tool of guest/files.c in the VM, with its arguments. */
export interface ToolCommand {
  readonly command: readonly string[]
  readonly encodedArguments: boolean
}

/**
 * Builds the command of a file tool.
 * @param rest arguments after the paths; they must not contain percent signs
 */
export function toolCommand(action: string, paths: readonly VmPath[], rest: readonly string[] = []): ToolCommand {
  // Encode paths only if necessary, because older agents support only plain text.
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
