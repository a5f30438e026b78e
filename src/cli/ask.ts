/** Questions on a terminal. Without one they are refused, with the flag to use instead. The library is loaded then. */
import { printable, printableLine } from '../lib/printable.ts'
import { Interrupted } from './verb.ts'

const needTerminal = (question: string) => {
  if (!process.stdin.isTTY)
    throw new Error(`"${question}" cannot be asked without a terminal: give it as a flag (see --help).`)
}

const prompts = () => import('@clack/prompts')

/** A symbol says that the question was cancelled. */
function answered<T extends string | boolean>(answer: T | symbol): T {
  if (typeof answer === 'symbol') throw new Interrupted()
  return answer
}

/** @param fallback taken when nothing is typed */
export async function ask(message: string, fallback?: string): Promise<string> {
  needTerminal(message)
  const validate = (value: string | undefined) => (value || fallback ? undefined : 'Please type something.')
  const shown = fallback === undefined ? {} : { placeholder: fallback, defaultValue: fallback }
  return answered<string>(
    await (await prompts()).text({ message: printable(message), validate, ...shown, output: process.stderr }),
  )
}

export async function askSecret(message: string): Promise<string> {
  needTerminal(message)
  return answered<string>(await (await prompts()).password({ message: printable(message), output: process.stderr }))
}

export async function choose(message: string, options: readonly { value: string; label: string }[]): Promise<string> {
  needTerminal(message)
  return answered<string>(
    await (await prompts()).select<string>({
      message: printable(message),
      options: options.map(({ value, label }) => ({ value, label: printableLine(label) })),
      output: process.stderr,
    }),
  )
}

export async function agree(message: string): Promise<boolean> {
  needTerminal(message)
  return answered<boolean>(
    await (await prompts()).confirm({ message: printable(message), initialValue: false, output: process.stderr }),
  )
}

/**
 * Destructive commands ask for the name of what goes; `--yes` answers.
 * @throws Error when another name was typed
 */
export async function confirmByName(what: string, name: string, yes: boolean): Promise<void> {
  if (yes) return
  const typed = await ask(`This deletes ${what} ${name} for good. Type its name to go on`)
  if (typed !== name) throw new Error(`"${typed}" is not "${name}": nothing was deleted.`)
}
