/** Masks the values of secrets in a build log. */
import type { VmLog } from '../logs/vm-log.ts'

/** Minimum length of a masked value. Shorter values would also mask unrelated words. */
const shortest = 8
export const masked = '***'

/**
 * Returns a function that masks secrets in a log line. A value with several lines is masked line by line, as a program
 * prints it.
 */
export function maskOf(secrets: readonly string[]): (line: string) => string {
  const parts = secrets
    .flatMap(value => [value, ...value.split(/\r?\n/)])
    .map(part => part.trim())
    .filter(part => part.length >= shortest)
    // Longer values are replaced first: if one value contains another, replacing the shorter one would leave parts of
    // the longer one.
    .toSorted((a, b) => b.length - a.length)
  const known = [...new Set(parts)]
  return line => known.reduce((text, part) => text.replaceAll(part, masked), line)
}

export function maskedLog(log: VmLog, secrets: readonly string[]): VmLog {
  if (secrets.length === 0) return log
  const mask = maskOf(secrets)
  return {
    ...log,
    say: line => log.say(mask(line)),
    frames: (boot, frames, ack) =>
      log.frames(
        boot,
        frames.map(frame => ({ ...frame, line: mask(frame.line) })),
        ack,
      ),
  }
}
