/**
 * Translates the `.dockerignore` of a project without a Dockerfile (docs.docker.com/build/concepts/context) into
 * regular expressions. awk matches them in the builder VM, so that a slow pattern delays only its own build.
 */
import { faultAt, isPlanFile, type Project } from './project.ts'

const file = '.dockerignore'
/**
 * Limit on the length of all regular expressions together. They are passed in one environment variable, which Linux
 * limits to 128 KiB.
 */
const mostBytes = 64 << 10

/**
 * Returns one line per pattern: `-` (exclude) or `+` (exception), and an extended regular expression for paths. The
 * last matching line decides. Files at the top that decide the build plan are exceptions: usually they are listed only
 * because a Dockerfile does not copy them.
 * @returns the empty string if nothing is excluded
 * @throws BuildFault if there are too many patterns
 */
export function ignoredBy(project: Project): string {
  const text = project.text(file).replace(/^\uFEFF/, '')
  // Parsing a longer file would block the agent for too long.
  if (text.length > mostBytes) throw faultAt({ file, line: 1 }, 'The file is longer than 64 KiB. Write fewer patterns.')
  const lines: string[] = []
  let bytes = 0
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.trim()
    if (line === '' || line.startsWith('#')) continue
    const isException = line.startsWith('!')
    const parts = cleaned(isException ? line.slice(1).trim() : line)
    if (parts.length === 0) continue
    const expression = `${isException ? '+' : '-'}^${expressionOf(parts)}(/.*)?$`
    bytes += Buffer.byteLength(expression) + 1
    if (bytes > mostBytes)
      throw faultAt({ file, line: index + 1 }, 'The patterns are too long for a build. Write fewer ones.')
    lines.push(expression)
  }
  if (!lines.some(line => line.startsWith('-'))) return ''
  const kept = project.find(/^[^/]+$/).filter(path => isPlanFile(path) && path !== file)
  return [...lines, ...kept.map(path => `+^${literal(path)}$`)].join('\n')
}

/** Normalizes a pattern like Go's `filepath.Clean`: without empty parts, `.` and `..`. */
function cleaned(pattern: string): string[] {
  const parts: string[] = []
  for (const part of pattern.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts
}

function expressionOf(parts: readonly string[]): string {
  const last = parts.length - 1
  return parts
    .map((part, n) => {
      if (part === '**') return n === last ? '.*' : '(.*/)?'
      return partOf(part) + (n === last ? '' : '/')
    })
    .join('')
}

/**
 * Splits a pattern into `*`, `?`, `[a-z]`, `\x` and literals, as in Go's `filepath.Match`, and `**`, which crosses
 * directories.
 */
const tokens = /\*\*|[*?]|\[\^?(?:[^\][\\^-](?:-[^\][\\^-])?)+\]|\\.|./gsu

const partOf = (part: string) =>
  part.replace(tokens, token => {
    if (token === '**') return '.*'
    if (token === '*') return '[^/]*'
    if (token === '?') return '[^/]'
    if (token.startsWith('[') && token.length > 1) return isClass(token) ? token : literal(token)
    return literal(token.length === 2 && token.startsWith('\\') ? token.slice(1) : token)
  })

/** Whether a bracket expression is valid: awk rejects a range that runs backwards, such as `[d-b]`. */
const isClass = (token: string) => [...token.matchAll(/(.)-(.)/gu)].every(([, from = '', to = '']) => from <= to)

/** Escapes a literal, mostly with brackets: backslashes mean different things in different awks. */
const literal = (text: string) => text.replace(/[.$*+?(){}|[\]]/g, '[$&]').replace(/[\\^]/g, '\\$&')
