/** Removes the values of secrets from the log of a build. */
import type { VmLog } from '../logs/vm-log.ts'

/** Shorter values would also hide words that have nothing to do with them. */
const shortest = 8
export const masked = '***'

/** Lines of a value that has several are masked one by one, as a program prints them. */
export function maskOf(secrets: readonly string[]): (line: string) => string {
  const parts = secrets
    .flatMap(value => [value, ...value.split(/\r?\n/)])
    .map(part => part.trim())
    .filter(part => part.length >= shortest)
    // A value that contains another one must not be left in part.
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
