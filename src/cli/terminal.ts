/** The only way in which commands write: what servers and users say cannot control the terminal. */
import { printableInColour } from '../lib/printable.ts'

export const out = (text: string): void => void process.stdout.write(printableInColour(text))
export const err = (text: string): void => void process.stderr.write(printableInColour(text))
/** What a program in a VM wrote, as it is: the person ran it, and may want its bytes in a file. */
export const raw = (stream: 'stdout' | 'stderr', text: string): void => void process[stream].write(text)
