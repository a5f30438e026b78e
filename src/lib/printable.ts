/**
 * Text of others on a terminal, in a mail or in a log: what names, messages and log lines hold must not move a cursor,
 * set a title, hide text or turn its direction around (CVE-2021-42574).
 */

/** Controls (C0, DEL, C1), line and paragraph separators, and what overrides the direction of text. */
const controls = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
const controlsInLines = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu

export const hasControls = (text: string): boolean => controls.test(text)

const escape = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** With every control character as `\u001b`, which JSON reads as the character again. Tabs and line breaks stay. */
export const printable = (text: string): string =>
  controls.test(text) ? text.replace(controlsInLines, one => (one === '\n' || one === '\t' ? one : escape(one))) : text

/** In one line: line breaks and tabs are escaped, too. */
export const printableLine = (text: string): string =>
  controls.test(text) ? text.replace(controlsInLines, escape) : text

// ECMA-48 SGR, without 8, which hides text.
const colour = new RegExp(`${String.fromCharCode(27)}\\[(?!(?:\\d+;)*0?8(?:[;m]))[\\d;]{0,32}m`, 'g')

/** The same for a terminal, where colours stay. */
export function printableInColour(text: string): string {
  if (!controls.test(text)) return text
  let shown = ''
  let at = 0
  for (const match of text.matchAll(colour)) {
    shown += printable(text.slice(at, match.index)) + match[0]
    at = match.index + match[0].length
  }
  return shown + printable(text.slice(at))
}
