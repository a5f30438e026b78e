import { signalNumbers } from '../../contract/session-stream.ts'

/** Signals that SSH can report as the cause of a program's end (RFC 4254, 6.10), with their Linux numbers. */
const ends = {
  ABRT: 6,
  ALRM: 14,
  FPE: 8,
  HUP: 1,
  ILL: 4,
  INT: 2,
  KILL: 9,
  PIPE: 13,
  QUIT: 3,
  SEGV: 11,
  TERM: 15,
  USR1: 10,
  USR2: 12,
} as const
type EndSignal = keyof typeof ends

const numbers: Readonly<Record<string, number>> = { ...ends, ...signalNumbers }
const names: ReadonlyMap<number, EndSignal> = new Map(
  Object.entries(ends).map(([name, number]) => [number, name as EndSignal]),
)

/** Returns the Linux number of a signal that a client names without the prefix SIG. */
export const signalNumber = (name: string): number | undefined =>
  Object.hasOwn(numbers, name) ? numbers[name] : undefined

/**
 * Returns how a program's end by a signal is reported to clients: by the signal's name or, where SSH has none, by the
 * exit code that a shell returns.
 */
export const endBySignal = (number: number): EndSignal | number => names.get(number) ?? 128 + number
