/** Finds the line of a build's log that says why the build failed. Pure. */
import { printableLine } from '../../lib/printable.ts'

/** Lines from the end that are searched. */
export const searchedLines = 60
const longest = 300
// ECMA-48 control sequences, which tools write when they take the log for a terminal.
const sequences = new RegExp(`${String.fromCharCode(27)}\\[[0-9;?]{0,32}[A-Za-z]`, 'g')
/** Written around a failure by the host and by common tools, without a reason. */
const noise =
  /^the (?:program exited|workload ended)|^still running; no output|^[\w ]+ took \d|complete log of this run|^npm (?:err!|error) *$|debug-\d+\.log|^exit status \d+$|^(?:note|hint|warn(?:ing)?): |^using \S+ \S+ of debian\b|^error: (?:subprocess-exited-with-error|metadata-generation-failed)$|: failed$|gyp err! (?:not ok$|configure error$|build error$|system |command |cwd |node(?:-gyp)? -v |\$npm_|stack (?!error:)|stack error: .make. failed)|make(?:\[\d+\])?: \*\*\* \[.*\] error \d+$|^error:: aborting deploy$|^╰─>|^\[\w+\]:\s+(?:file|raise|\^|\))|^> build failed because of|^elifecycle\b|\belifecycle\b.*command failed|see above for (?:output|details)/i
/** Printed by `runStep` after a command line: it says which one failed, and not why. */
const step = /: (?:took|failed after) \d+ s$/
const signs =
  /\b(?:\w*error|\w*exception|err!|fatal|failed|failure|cannot|can't|could not|not found|no such|unable|undefined:|denied|requires|unsupported|mismatch|did not run successfully|needs to be updated)\b|: error/i

/**
 * @returns the last line that reports a fault, otherwise that which names the failed command, otherwise the last line;
 * undefined for an empty log
 */
export function failureLine(lines: readonly string[]): string | undefined {
  const told = lines
    .slice(-searchedLines)
    .map(line => printableLine(line.slice(0, 2000).replaceAll(sequences, '')).trim())
    .filter(line => line !== '' && !noise.test(line))
  const fault = told.findLast(line => signs.test(line) && !step.test(line))
  return (fault ?? told.findLast(line => step.test(line)) ?? told.at(-1))?.slice(0, longest)
}
