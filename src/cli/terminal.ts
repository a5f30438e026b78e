/**
 * The only functions through which commands write. They escape control characters, so text from servers and users
 * cannot control the terminal.
 */
import { printableInColour } from '../lib/printable.ts'

export const out = (text: string): void => void process.stdout.write(printableInColour(text))
export const err = (text: string): void => void process.stderr.write(printableInColour(text))
/** Writes the output of a program in a VM unchanged: the user ran it, and may redirect its bytes to a file. */
export const raw = (stream: 'stdout' | 'stderr', text: string): void => void process[stream].write(text)
/** Like `raw`; resolves when the reader of the output has taken the bytes. */
export const rawBytes = (stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> =>
  new Promise(resolve => process[stream].write(data, () => resolve()))
