/**
 * The only functions through which commands write. Except for `raw` and `rawBytes`, they escape control characters, so
 * text from servers and users cannot control the terminal.
 */
import { printableInColour } from '../lib/printable.ts'
import { canLink, withLinks } from './hyperlinks.ts'

const links = canLink(process.env, process.stdout.isTTY === true)
/** Returns the text made safe for standard output, with links on terminals that support them. */
export const shownText = (text: string): string => {
  const safe = printableInColour(text)
  return links ? withLinks(safe) : safe
}

export const out = (text: string): void => void process.stdout.write(shownText(text))
export const err = (text: string): void => void process.stderr.write(printableInColour(text))
/** Writes the output of a program in a VM unchanged, because the user may redirect its bytes to a file. */
export const raw = (stream: 'stdout' | 'stderr', text: string): void => void process[stream].write(text)
/** Like `raw`; resolves when the reader of the output has taken the bytes. */
export const rawBytes = (stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> =>
  new Promise(resolve => process[stream].write(data, () => resolve()))
