/** Converts commands to and from text in a form: a shell script, or a program with one argument per line. */

export const commandKinds = ['script', 'program'] as const
type CommandKind = (typeof commandKinds)[number]
type Command = readonly string[]

const shell = ['/bin/sh', '-c'] as const

/** The script if the command is exactly `/bin/sh -c <script>`, else undefined. */
const scriptOf = (command: Command) =>
  command.length === 3 && command[0] === shell[0] && command[1] === shell[1] ? command[2] : undefined

export const ofScript = (script: string): string[] => [...shell, script]
export const kindOf = (command: Command): CommandKind => (scriptOf(command) === undefined ? 'program' : 'script')
/** The command on one line, for a table. */
export const summaryOf = (command: Command): string => scriptOf(command) ?? command.join(' ')
export const textOf = (command: Command): string => scriptOf(command) ?? command.join('\n')

/** Replaces CR LF, which browsers submit for each line break. */
const lines = (text: string) => text.replaceAll('\r\n', '\n')
const isSame = (a: string, b: string) => lines(a) === lines(b)

/**
 * The command for the text of the form.
 * @param known the previous command; returned unchanged if the text was not edited, because an argument may contain a
 * line break
 */
export function commandOf(kind: string, text: string, known?: Command): string[] {
  if (known && kind === kindOf(known) && isSame(text, textOf(known))) return [...known]
  if (kind === 'script') return ofScript(lines(text))
  return lines(text)
    .split('\n')
    .filter(argument => argument !== '')
}

/** The release command for the text of the form. @returns empty to remove it; undefined if the text was not edited */
export function changedRelease(text: string, known: Command | null): string[] | undefined {
  if (isSame(text, summaryOf(known ?? []))) return undefined
  return text.trim() === '' ? [] : ofScript(lines(text))
}
