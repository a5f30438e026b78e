/**
 * Makes untrusted text safe for a terminal, an email or a log: names, messages and log lines must not move the cursor,
 * set a title, hide text or reverse its direction (CVE-2021-42574).
 */

/**
 * Control characters (C0, DEL, C1), line and paragraph separators, and characters that override the direction of text.
 */
const controls = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
const controlsInLines = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu

export const hasControls = (text: string): boolean => controls.test(text)

const escape = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** Escapes control characters in a text as `\u001b`, which JSON decodes again. Tabs and line breaks are kept. */
export const printable = (text: string): string =>
  controls.test(text) ? text.replace(controlsInLines, one => (one === '\n' || one === '\t' ? one : escape(one))) : text

/** Like `printable`, but also escapes line breaks and tabs, so that the text is one line. */
export const printableLine = (text: string): string =>
  controls.test(text) ? text.replace(controlsInLines, escape) : text

// Matches sequences that set colors (ECMA-48 SGR), except those with 8, which hides text.
const color = new RegExp(`${String.fromCharCode(27)}\\[(?!(?:\\d+;)*0?8(?:[;m]))[\\d;]{0,32}m`, 'g')

/** Like `printable`, but keeps sequences that set colors, for a terminal. */
export function printableInColour(text: string): string {
  if (!controls.test(text)) return text
  let shown = ''
  let at = 0
  for (const match of text.matchAll(color)) {
    shown += printable(text.slice(at, match.index)) + match[0]
    at = match.index + match[0].length
  }
  return shown + printable(text.slice(at))
}
