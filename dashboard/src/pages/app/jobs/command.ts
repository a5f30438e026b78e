/** Commands as text in a form: a script for a shell, or a program with one argument in each line. */

export const commandKinds = ['script', 'program'] as const
type CommandKind = (typeof commandKinds)[number]
type Command = readonly string[]

const shell = ['/bin/sh', '-c'] as const

/** The script, if the command is nothing but a shell that runs one. */
const scriptOf = (command: Command) =>
  command.length === 3 && command[0] === shell[0] && command[1] === shell[1] ? command[2] : undefined

export const ofScript = (script: string): string[] => [...shell, script]
export const kindOf = (command: Command): CommandKind => (scriptOf(command) === undefined ? 'program' : 'script')
/** The command in one piece, for a table. */
export const summaryOf = (command: Command): string => scriptOf(command) ?? command.join(' ')
export const textOf = (command: Command): string => scriptOf(command) ?? command.join('\n')

/** Browsers send a line break as two characters. */
const lines = (text: string) => text.replaceAll('\r\n', '\n')
const isSame = (a: string, b: string) => lines(a) === lines(b)

/** @param known the command before; kept as it is unless its text was changed, because an argument may contain a line break */
export function commandOf(kind: string, text: string, known?: Command): string[] {
  if (known && kind === kindOf(known) && isSame(text, textOf(known))) return [...known]
  if (kind === 'script') return ofScript(lines(text))
  return lines(text)
    .split('\n')
    .filter(argument => argument !== '')
}

/** @returns the new command, empty for none; undefined if the text was not changed */
export function changedRelease(text: string, known: Command | null): string[] | undefined {
  if (isSame(text, summaryOf(known ?? []))) return undefined
  return text.trim() === '' ? [] : ofScript(lines(text))
}
