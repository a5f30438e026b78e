/** Makes URLs clickable on terminals that support it (OSC 8, https://github.com/Alhadis/OSC8-Adoption). */

/**
 * Returns whether the environment names a terminal that supports links. Other terminals may print the escape sequence
 * as text.
 */
export function canLink(env: NodeJS.ProcessEnv, isTerminal: boolean): boolean {
  if (env.FORCE_HYPERLINK !== undefined) return env.FORCE_HYPERLINK !== '0'
  if (!isTerminal || env.TERM === 'dumb' || env.NO_HYPERLINK || env.CI) return false
  if (Number(env.VTE_VERSION ?? 0) >= 5000) return true
  if (env.WT_SESSION || env.KITTY_WINDOW_ID || env.KONSOLE_VERSION || env.DOMTERM) return true
  if (/^(?:xterm-kitty|alacritty|foot|xterm-ghostty)/.test(env.TERM ?? '')) return true
  return ['iTerm.app', 'WezTerm', 'vscode', 'ghostty', 'Hyper', 'rio'].includes(env.TERM_PROGRAM ?? '')
}

const address = /https?:\/\/[A-Za-z0-9.:[\]_~%/?#@!$&*+,;=-]{1,2000}/g
const escape = '\u001b'

/**
 * Makes each URL a link to itself, so that no link leads elsewhere than its text says. The text must not contain
 * control characters.
 */
export const withLinks = (text: string): string =>
  text.replaceAll(address, (found, at: number) => {
    const url = found.replace(/(?<![.,;:!?])[.,;:!?]+$/, '')
    // A table has cut this URL, so a link to it would lead nowhere.
    if (text[at + found.length] === '…') return found
    return `${escape}]8;;${url}${escape}\\${url}${escape}]8;;${escape}\\${found.slice(url.length)}`
  })
