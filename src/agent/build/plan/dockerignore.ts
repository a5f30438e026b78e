/**
 * `.dockerignore` of a project without a Dockerfile, in the format that Docker documents
 * (docs.docker.com/build/concepts/context). Its patterns become expressions that awk matches in the builder VM: a
 * slow pattern delays only its own build.
 */
import { faultAt, isPlanFile, type Project } from './project.ts'

const file = '.dockerignore'
/** The expressions travel in one variable, which Linux limits to 128 KiB. */
const mostBytes = 64 << 10

/**
 * One line for each pattern: `-` or, for an exception, `+`, and an extended regular expression of the paths. The last
 * one that matches decides. The files at the top that decide the plan stay: in a `.dockerignore`, such a file is
 * excluded because a Dockerfile does not copy it.
 * @returns the empty string if nothing is excluded
 * @throws BuildFault if there are too many patterns
 */
export function ignoredBy(project: Project): string {
  const text = project.text(file).replace(/^\uFEFF/, '')
  // Reading a longer one would block the agent.
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

/** As Go's `filepath.Clean`: without empty parts, `.` and `..`. */
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

/** `*`, `?`, `[a-z]` and `\x`, as Go's `filepath.Match` reads them, and `**` across directories. */
const tokens = /\*\*|[*?]|\[\^?(?:[^\][\\^-](?:-[^\][\\^-])?)+\]|\\.|./gsu

const partOf = (part: string) =>
  part.replace(tokens, token => {
    if (token === '**') return '.*'
    if (token === '*') return '[^/]*'
    if (token === '?') return '[^/]'
    if (token.startsWith('[') && token.length > 1) return isClass(token) ? token : literal(token)
    return literal(token.length === 2 && token.startsWith('\\') ? token.slice(1) : token)
  })

/** Whether the class has no range that runs backwards, which awk refuses. */
const isClass = (token: string) => [...token.matchAll(/(.)-(.)/gu)].every(([, from = '', to = '']) => from <= to)

/** Brackets quote the same in every awk, backslashes do not. */
const literal = (text: string) => text.replace(/[.$*+?(){}|[\]]/g, '[$&]').replace(/[\\^]/g, '\\$&')
