/** Finds the line of a build log that tells why the build failed. */
import { printableLine } from '../../lib/printable.ts'

/** Number of lines at the end of the log that are searched. */
export const searchedLines = 60
const longest = 300
// ECMA-48 control sequences such as colors. Some tools print them although the log is not a terminal.
const sequences = new RegExp(`${String.fromCharCode(27)}\\[[0-9;?]{0,32}[A-Za-z]`, 'g')
/** Lines that the host and common tools print around an error, without its reason. */
const noise =
  /^the (?:program exited|workload ended)|^still running; no output|^[\w ]+ took \d|complete log of this run|^npm (?:err!|error) *$|debug-\d+\.log|^exit status \d+$|^(?:note|hint|warn(?:ing)?): |^using \S+ \S+ of debian\b|^error: (?:subprocess-exited-with-error|metadata-generation-failed)$|: failed$|gyp err! (?:not ok$|configure error$|build error$|system |command |cwd |node(?:-gyp)? -v |\$npm_|stack (?!error:)|stack error: .make. failed)|make(?:\[\d+\])?: \*\*\* \[.*\] error \d+$|^error:: aborting deploy$|^╰─>|^\[\w+\]:\s+(?:file|raise|\^|\))|^> build failed because of|^elifecycle\b|\belifecycle\b.*command failed|see above for (?:output|details)/i
/** Lines that `runStep` prints after each command: they name the command that failed, but not the reason. */
const step = /: (?:took|failed after) \d+ s$/
const signs =
  /\b(?:\w*error|\w*exception|err!|fatal|failed|failure|cannot|can't|could not|not found|no such|unable|undefined:|denied|requires|unsupported|mismatch|did not run successfully|needs to be updated)\b|: error/i

/**
 * @returns the last line that reports an error, otherwise the line that names the failed command, otherwise the last
 * line; undefined for an empty log
 */
export function failureLine(lines: readonly string[]): string | undefined {
  const told = lines
    .slice(-searchedLines)
    .map(line => printableLine(line.slice(0, 2000).replaceAll(sequences, '')).trim())
    .filter(line => line !== '' && !noise.test(line))
  const fault = told.findLast(line => signs.test(line) && !step.test(line))
  return (fault ?? told.findLast(line => step.test(line)) ?? told.at(-1))?.slice(0, longest)
}
