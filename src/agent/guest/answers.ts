/** What a guest may say, as schemas: root in a guest can take the place of our init. The other side is in guest/init.c. */
import { type Static, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { GuestFault } from './fault.ts'

/** As a shell gives it: 128 and the signal's number for a program that one has ended. */
const ExitCode = Type.Integer({ minimum: 0, maximum: 255 })
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

/** Of `status`: the program's process, or how it ended. */
export const Status = Type.Union([
  Type.Tuple([Type.Literal('running'), Count]),
  Type.Tuple([Type.Literal('exited'), ExitCode]),
  Type.Tuple([Type.Literal('idle'), Count]),
])
/** Behind `* exit`. */
export const Exit = Type.Tuple([ExitCode])
/** Of `net`: bytes received and sent. Of `memory`: bytes in total and available. */
export const TwoCounts = Type.Tuple([Count, Count])
/** Of `exec`: the exit code, and 1 when output was cut. */
export const ExecResult = Type.Tuple([ExitCode, Type.Union([Type.Literal(0), Type.Literal(1)])])

/** Compiled at first use: a guest may say thousands of words in a moment, and each would cost 10 µs. */
const compiled = new WeakMap<TSchema, { Check(value: unknown): boolean }>()

function holds<T extends TSchema>(schema: T, value: unknown): value is Static<T> {
  const validator = compiled.get(schema) ?? Compile(schema)
  compiled.set(schema, validator)
  return validator.Check(value)
}

/** The words of an answer, numbers as such. @throws GuestFault for anything else */
export function parseWords<T extends TSchema>(schema: T, text: string): Static<T> {
  const words: unknown = text.split(' ', 8).map(word => (/^\d{1,15}$/.test(word) ? Number(word) : word))
  if (holds(schema, words)) return words
  throw new GuestFault(`it answered ${shown(text)}`)
}

/** A number that a VMM states, which a guest may have taken over; 0: it is none, and nothing may break over it. */
export const countOf = (value: unknown): number => (Value.Check(Count, value) ? value : 0)

/** A text of a guest's, for messages. */
export const shown = (text: string): string => JSON.stringify(text.slice(0, 100))
