/**
 * Prompts on the terminal. Without a terminal, a prompt fails and names the flag to use instead. The prompt library is
 * loaded on demand.
 */
import { printable, printableLine } from '../lib/printable.ts'
import { Interrupted } from './verb.ts'

const needTerminal = (question: string, flag: string) => {
  if (!process.stdin.isTTY) throw new Error(`"${question}" cannot be asked without a terminal. Give ${flag}.`)
}

const prompts = () => import('@clack/prompts')

/**
 * Returns the user's answer.
 * @throws Interrupted if the user canceled the prompt, for which the library returns a symbol
 */
function answered<T extends string | boolean>(answer: T | symbol): T {
  if (typeof answer === 'symbol') throw new Interrupted()
  return answer
}

/**
 * Asks for a line of text.
 * @param flag named in the error if there is no terminal
 * @param fallback used for empty input, and without a terminal
 */
export async function ask(message: string, flag: string, fallback?: string): Promise<string> {
  if (!process.stdin.isTTY && fallback !== undefined) return fallback
  needTerminal(message, flag)
  const validate = (value: string | undefined) => (value || fallback ? undefined : 'Enter a value.')
  const shown = fallback === undefined ? {} : { placeholder: fallback, defaultValue: fallback }
  return answered<string>(
    await (await prompts()).text({ message: printable(message), validate, ...shown, output: process.stderr }),
  )
}

export async function askSecret(message: string, flag: string): Promise<string> {
  needTerminal(message, flag)
  return answered<string>(await (await prompts()).password({ message: printable(message), output: process.stderr }))
}

export async function choose(
  message: string,
  flag: string,
  options: readonly { value: string; label: string }[],
): Promise<string> {
  needTerminal(message, flag)
  return answered<string>(
    await (await prompts()).select<string>({
      message: printable(message),
      options: options.map(({ value, label }) => ({ value, label: printableLine(label) })),
      output: process.stderr,
    }),
  )
}

export async function agree(message: string, flag = '--yes'): Promise<boolean> {
  needTerminal(message, flag)
  return answered<boolean>(
    await (await prompts()).confirm({ message: printable(message), initialValue: false, output: process.stderr }),
  )
}

/**
 * Confirms a destructive command by asking the user to type the resource's name; `--yes` skips the prompt.
 * @throws Error if another name was entered
 */
export async function confirmByName(what: string, name: string, yes: boolean): Promise<void> {
  if (yes) return
  const typed = await ask(`This permanently deletes ${what} ${name}. Type its name to confirm`, '--yes')
  if (typed !== name) throw new Error(`"${typed}" is not "${name}": nothing was deleted.`)
}
