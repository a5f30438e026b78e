/**
 * Schemas of a guest's answers, which are untrusted: root in a guest can replace Mote's init. guest/init.c is the other
 * side.
 */
import { type Static, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { GuestFault } from './fault.ts'

/** An exit code as in a shell: 128 plus the signal's number for a program that was killed by a signal. */
export const ExitCode = Type.Integer({ minimum: 0, maximum: 255 })
export const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

/** Answer to `status`: the state of the workload, followed by its pid if it is running, otherwise by its exit code. */
export const Status = Type.Union([
  Type.Tuple([Type.Literal('running'), Count]),
  Type.Tuple([Type.Literal('exited'), ExitCode]),
  Type.Tuple([Type.Literal('idle'), Count]),
])
/** Arguments of the notification `* exit`. */
export const Exit = Type.Tuple([ExitCode])
/** Answer to `net`: bytes received and sent. Answer to `memory`: total and available bytes. */
export const TwoCounts = Type.Tuple([Count, Count])
/** Answer to `exec`: the exit code, and 1 if the output was truncated. */
export const ExecResult = Type.Tuple([ExitCode, Type.Union([Type.Literal(0), Type.Literal(1)])])

/** Compiled schemas. A guest may send thousands of lines at once, and an uncompiled check takes 10 µs. */
const compiled = new WeakMap<TSchema, { Check(value: unknown): boolean }>()

function holds<T extends TSchema>(schema: T, value: unknown): value is Static<T> {
  const validator = compiled.get(schema) ?? Compile(schema)
  compiled.set(schema, validator)
  return validator.Check(value)
}

/** Limit on the number of parsed words. Every valid answer has fewer. */
const maxWords = 16

/** Parses the words of an answer, with numbers converted. @throws GuestFault if they do not match the schema */
export function parseWords<T extends TSchema>(schema: T, text: string): Static<T> {
  const words: unknown = text.split(' ', maxWords).map(word => (/^\d{1,15}$/.test(word) ? Number(word) : word))
  if (holds(schema, words)) return words
  throw new GuestFault(`unexpected answer ${shown(text)}`)
}

/** Returns a count that a VMM reported, or 0 if it is not a valid count: a guest may have compromised the VMM. */
export const countOf = (value: unknown): number => (Value.Check(Count, value) ? value : 0)

/** Quotes and truncates a guest's text for messages. */
export const shown = (text: string): string => JSON.stringify(text.slice(0, 100))
