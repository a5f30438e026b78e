/**
 * Colors output on terminals only. Piped output stays plain even if `CI` is set, which picocolors treats as a request
 * for color.
 */
import picocolors from 'picocolors'

/**
 * Returns whether to color output: decided by <https://no-color.org>, then <https://force-color.org>, then whether the
 * output is a terminal.
 */
export const wantsColours = (env: NodeJS.ProcessEnv, isTerminal: boolean): boolean =>
  !env.NO_COLOR && (env.FORCE_COLOR ? env.FORCE_COLOR !== '0' : isTerminal && env.TERM !== 'dumb')

export const pc = picocolors.createColors(wantsColours(process.env, process.stdout.isTTY === true))
