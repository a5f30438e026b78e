/** Parses variables on a command line. */
import { readInput } from './env-file.ts'

/** Splits `name=value`. @throws Error if there is no name */
export function pairOf(pair: string): readonly [name: string, value: string] {
  const at = pair.indexOf('=')
  if (at <= 0) throw new Error(`"${pair}" does not have the form name=value`)
  return [pair.slice(0, at), pair.slice(at + 1)]
}

/** Returns the given value, or the standard input if the value is `-`. */
export const valueOf = async (given: string): Promise<string> =>
  given === '-' ? (await readInput()).replace(/\n$/, '') : given
