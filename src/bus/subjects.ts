/** Subjects and patterns as NATS defines them: dot-separated tokens, `*` for one token, a final `>` for one or more. */
import { type StreamPolicy, streams } from './streams.ts'

const token = /^[A-Za-z0-9_$=+/:@-]+$/

/**
 * Checks a subject to publish to. @throws RangeError for empty tokens, wildcards, spaces and other unusual characters
 */
export function assertSubject(subject: string): void {
  if (!subject.split('.').every(part => token.test(part)))
    throw new RangeError(`not a bus subject: ${JSON.stringify(subject)}`)
}

/** Checks a subject or pattern to subscribe to. @throws RangeError if it is invalid */
export function assertPattern(pattern: string): void {
  const parts = pattern.split('.')
  const fine = parts.every(
    (part, index) => part === '*' || (part === '>' && index === parts.length - 1) || token.test(part),
  )
  if (!fine) throw new RangeError(`not a bus subject or pattern: ${JSON.stringify(pattern)}`)
}

/** Returns whether every subject that `inner` (a subject or a pattern) stands for matches `outer`. */
export function covers(outer: string, inner: string): boolean {
  const wide = outer.split('.')
  const narrow = inner.split('.')
  for (const [index, part] of wide.entries()) {
    if (part === '>') return narrow.length > index
    const other = narrow[index]
    if (other === undefined || other === '>') return false
    if (part !== '*' && part !== other) return false
  }
  return wide.length === narrow.length
}

/** Returns whether some subject matches both patterns. */
export function overlap(a: string, b: string): boolean {
  const one = a.split('.')
  const two = b.split('.')
  for (let index = 0; index < Math.max(one.length, two.length); index++) {
    const left = one[index]
    const right = two[index]
    if (left === undefined || right === undefined) return false
    if (left === '>' || right === '>') return true
    if (left !== '*' && right !== '*' && left !== right) return false
  }
  return true
}

/**
 * Returns the stream that retains a subject or pattern; undefined if there is none. @throws RangeError for a pattern
 * that is only partly retained: some of its messages would have sequences and others not.
 */
export function streamPolicyOf(pattern: string): StreamPolicy | undefined {
  const all: readonly StreamPolicy[] = streams
  const whole = all.find(stream => stream.subjects.some(subject => covers(subject, pattern)))
  if (whole !== undefined) return whole
  const part = all.find(stream => stream.subjects.some(subject => overlap(subject, pattern)))
  if (part === undefined) return undefined
  throw new RangeError(
    `${pattern} is only partly retained by stream ${part.name}: subscribe to its subjects separately`,
  )
}
