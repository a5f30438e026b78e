/** Parses `.env` and `env_file` files: NAME=value lines, with the quotes and comments of Compose. */
import { interpolate, type Variables } from './interpolate.ts'
import { Invalid } from './faults.ts'

const mostBytes = 262_144
/** Returns the length in UTF-8 bytes. `Buffer.byteLength` is not available in browsers. */
const byteLength = (text: string) => new TextEncoder().encode(text).length
const mostVariables = 1000
const assignment = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*(?:=(.*))?$/s

/**
 * Returns the variables of the file. The value is undefined for a name without "=", whose value comes from the
 * environment.
 * @param variables values without single quotes may refer to these, and to variables of earlier lines
 * @throws Invalid
 */
export function readEnvFile(text: string, file: string, variables: Variables): Map<string, string | undefined> {
  const wrong = (line: number, message: string) => new Invalid([{ at: { file, line, column: 1 }, field: '', message }])
  if (byteLength(text) > mostBytes) throw wrong(1, `The file exceeds the limit of ${mostBytes / 1024} KiB`)
  const found = new Map<string, string | undefined>()
  const known: Variables = {
    get: name => found.get(name) ?? variables.get(name),
    missing: (name, at) => variables.missing(name, at),
  }
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  for (let at = 0; at < lines.length; at++) {
    if (found.size > mostVariables) throw wrong(at + 1, `The file exceeds the limit of ${mostVariables} variables`)
    const start = at
    const line = (lines[at] ?? '').trimStart()
    if (line === '' || line.startsWith('#')) continue
    const [, name, given] = assignment.exec(line) ?? []
    if (name === undefined) throw wrong(start + 1, 'A line must be NAME=value')
    if (given === undefined) {
      found.set(name, undefined)
      continue
    }
    const expand = (raw: string) => interpolate(raw, { file, line: start + 1, column: 1 }, known)
    const value = given.trimStart()
    const quote = value[0] === '"' || value[0] === "'" ? value[0] : undefined
    if (quote === undefined) {
      found.set(name, expand(value.replace(/(?:^|\s)#.*/s, '').trim()))
      continue
    }
    // A quoted value may extend over several lines, up to the closing quote.
    const parts = [value.slice(1)]
    while (endOf(parts.at(-1) ?? '', quote) < 0 && at + 1 < lines.length) parts.push(lines[++at] ?? '')
    const last = parts.pop() ?? ''
    const end = endOf(last, quote)
    if (end < 0) throw wrong(start + 1, `The value of ${name} has no closing ${quote}`)
    const raw = [...parts, last.slice(0, end)].join('\n')
    found.set(name, quote === "'" ? raw : expand(unescaped(raw)))
  }
  return found
}

/** Returns the index of the closing quote, or -1. In double quotes, a backslash escapes the next character. */
function endOf(text: string, quote: string): number {
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\' && quote === '"') at++
    else if (text[at] === quote) return at
  }
  return -1
}

/**
 * Replacements of escape sequences. An escaped dollar sign becomes `$$`, which `interpolate` reads as a literal dollar
 * sign.
 */
const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', $: '$$', '"': '"', '\\': '\\' }
const unescaped = (raw: string) => raw.replaceAll(/\\([\s\S])/g, (all, one: string) => escapes[one] ?? all)
