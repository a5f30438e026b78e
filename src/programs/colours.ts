/** Colours for terminals only: what is piped into another program stays plain, also where `CI` is set (which picocolors reads as "colour"). */
import picocolors from 'picocolors'

/** <https://no-color.org>, then <https://force-color.org>, then whether somebody looks. */
export const wantsColours = (env: NodeJS.ProcessEnv, isTerminal: boolean): boolean =>
  !env.NO_COLOR && (env.FORCE_COLOR ? env.FORCE_COLOR !== '0' : isTerminal && env.TERM !== 'dumb')

export const pc = picocolors.createColors(wantsColours(process.env, process.stdout.isTTY === true))
