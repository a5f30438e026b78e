/** Rules for the files that an app's VMs get. */
import { invalidField } from '../http/errors.ts'

export const maxFiles = 64
/**
 * Maximum total size of an app's files. Encoded in base64, they still fit into one bus message together with the
 * environment.
 */
export const maxFileBytes = 512 << 10
/** Maximum length of a file's path. Real paths are shorter, and a list of files stays small. */
export const maxPathChars = 512

/** Virtual file systems of the kernel, which cannot store files. */
const kernelTrees = ['/proc', '/sys', '/dev']

/** Returns the path of a file if it is allowed. @throws ApiError 400 */
export function checkFilePath(path: string): string {
  const parts = path.split('/')
  const isNormal = parts[0] === '' && parts.length > 1 && parts.slice(1).every(part => !['', '.', '..'].includes(part))
  if (!isNormal)
    throw invalidField('path', 'must be absolute and without empty parts, "." and "..", such as /etc/app/app.conf')
  if (path.length > maxPathChars || parts.some(part => Buffer.byteLength(part) > 255))
    throw invalidField('path', `must have at most ${maxPathChars} characters, and 255 bytes between slashes`)
  if (kernelTrees.some(tree => path === tree || path.startsWith(`${tree}/`)) || path.startsWith('/.mote'))
    throw invalidField('path', 'belongs to the system; use a path elsewhere, such as /etc/app/app.conf')
  return path
}

export const defaultFileMode = 0o644

/**
 * Parses the mode of a file: three octal digits, optionally after a 0. The set-user-ID, set-group-ID and sticky bits
 * are not allowed.
 * @throws ApiError 400
 */
export function checkFileMode(mode: string): number {
  if (!/^0?[0-7]{3}$/.test(mode))
    throw invalidField('mode', 'must be three octal digits, optionally after a 0, such as 644 or 0644')
  return Number.parseInt(mode, 8)
}

export const modeText = (mode: number) => `0${mode.toString(8).padStart(3, '0')}`

/** Decodes the content of a file, which must be valid base64. @throws ApiError 400 */
export function checkContent(content: string): Buffer {
  const bytes = Buffer.from(content, 'base64')
  if (bytes.toString('base64').replace(/(?<!=)=+$/, '') !== content.replace(/(?<!=)=+$/, ''))
    throw invalidField('content', 'must be base64')
  if (bytes.length > maxFileBytes) throw invalidField('content', `can have at most ${maxFileBytes} bytes`)
  return bytes
}

/**
 * Checks all files of an app together.
 * @throws ApiError 400 if they exceed the limits, or if a file's path is a parent directory of another file
 */
export function checkFiles(files: readonly { readonly path: string; readonly sizeBytes: number }[]): void {
  if (files.length > maxFiles) throw invalidField('path', `an app can have at most ${maxFiles} files`)
  if (files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) > maxFileBytes)
    throw invalidField('content', `the files of an app can have at most ${maxFileBytes} bytes in total`)
  for (const { path } of files) {
    const above = files.find(other => path.startsWith(`${other.path}/`))
    if (above) throw invalidField('path', `${above.path} is a file, so ${path} cannot be below it`)
  }
}
