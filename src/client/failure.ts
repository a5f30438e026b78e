/** Shortens the failure texts of deployments and runs that the API returns. Pure. */

const mark = / Last lines:$/

/** Returns one line for lists: the cause, with the last line of the program's output if there is one. */
export function shortFailure(failure: string): string {
  const [first = '', ...output] = failure.split('\n')
  const cause = first.replace(mark, '')
  const last = cause === first ? undefined : output.findLast(line => line.trim() !== '')?.trim()
  return last === undefined ? cause : `${cause.replace(/\.$/, '')}: ${last}`
}
