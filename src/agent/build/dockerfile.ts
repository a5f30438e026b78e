/**
 * Parses the instructions of a Dockerfile, to refuse invalid ones before the builder starts
 * (docs.docker.com/reference/dockerfile).
 */
import { closestTo } from '../../lib/closest.ts'
import { faultAt } from './plan/project.ts'

export interface Instruction {
  /** Line number of the instruction's first word, from 1. */
  readonly line: number
  /** The instruction's first word, in upper case. */
  readonly verb: string
  /** The words after the first one, including those of continued lines, without the text of here-documents. */
  readonly words: readonly string[]
}

const verbs = [
  ...['ADD', 'ARG', 'CMD', 'COPY', 'ENTRYPOINT', 'ENV', 'EXPOSE', 'FROM', 'HEALTHCHECK', 'LABEL', 'MAINTAINER'],
  ...['ONBUILD', 'RUN', 'SHELL', 'STOPSIGNAL', 'USER', 'VOLUME', 'WORKDIR'],
] as const
const lowerVerbs = verbs.map(verb => verb.toLowerCase())

/** Instructions that accept here-documents. */
const takesDocuments: ReadonlySet<string> = new Set(['ADD', 'COPY', 'RUN'])
/** The start of a here-document: `<<EOF`, `<<-EOF` or `<<"EOF"`, but not `<<<`. */
const document = /(?<!<)<<(-?)(["']?)([A-Za-z_][\w.]*)\2/g
const mostDocuments = 32
/** Error messages show at most this many characters of an unknown instruction. */
const longestShown = 40

/** Returns the instructions of a Dockerfile, without comments and empty lines and with continued lines joined. */
export function instructionsOf(text: string): readonly Instruction[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  const escape = /^#\s{0,8}escape\s{0,8}=\s{0,8}`/i.test(lines[0] ?? '') ? '`' : '\\'
  const found: Instruction[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = at + 1
    const parts: string[] = []
    for (let isOpen = true; isOpen && at < lines.length; at++) {
      const one = (lines[at] ?? '').trim()
      // Comments and empty lines do not end a continued instruction.
      if (one.startsWith('#') || one === '') {
        if (parts.length === 0) break
        continue
      }
      isOpen = one.endsWith(escape)
      parts.push(isOpen ? one.slice(0, -1) : one)
      if (!isOpen) break
    }
    const words = parts.join(' ').split(/\s+/).filter(Boolean)
    const [first, ...rest] = words
    if (first === undefined) continue
    const verb = first.toUpperCase()
    found.push({ line, verb, words: rest })
    if (takesDocuments.has(verb)) at = endOfDocuments(lines, at, rest.join(' '))
  }
  return found
}

/** Returns the index of the line that ends the last here-document of an instruction. */
function endOfDocuments(lines: readonly string[], from: number, text: string): number {
  let at = from
  for (const [, dash, , name] of [...text.matchAll(document)].slice(0, mostDocuments)) {
    const isEnd = (line = '') => (dash === '' ? line : line.replace(/^\t+/, '')) === name
    at++
    while (at < lines.length && !isEnd(lines[at])) at++
  }
  return at
}

/**
 * Checks that every instruction exists and has a value, and that the first one is FROM.
 * @param file its path, for the message
 * @throws BuildFault with the number of the wrong line
 */
export function checkDockerfile(file: string, instructions: readonly Instruction[]): void {
  const [first] = instructions
  if (first === undefined)
    throw faultAt({ file, line: 1 }, 'The file has no instruction. Begin with FROM and the image to start from.')
  const unknown = instructions.find(({ verb }) => !verbs.some(one => one === verb))
  if (unknown !== undefined) {
    const meant = closestTo(unknown.verb, lowerVerbs)?.toUpperCase()
    const next = meant === undefined ? 'Write one of those of the Dockerfile reference.' : `Did you mean ${meant}?`
    throw faultAt({ file, line: unknown.line }, `${unknown.verb.slice(0, longestShown)} is no instruction. ${next}`)
  }
  const begin = instructions.find(({ verb }) => verb !== 'ARG') ?? first
  if (begin.verb !== 'FROM')
    throw faultAt({ file, line: begin.line }, `${begin.verb} comes before the first FROM, where only ARG is allowed.`)
  const bare = instructions.find(({ words }) => words.length === 0)
  if (bare !== undefined) throw faultAt({ file, line: bare.line }, `${bare.verb} has no value.`)
}
