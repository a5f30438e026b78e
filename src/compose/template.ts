/** Templates: compose files with a description, and questions whose answers become variables. */
import { Invalid } from './faults.ts'
import { readTree, type Tree } from './tree.ts'

export interface Question {
  /** Name of the variable that the answer sets in the compose file. */
  readonly name: string
  readonly ask: string
  /** Length of a generated answer; undefined if the answer is not generated. */
  readonly generate: number | undefined
  readonly fallback: string | undefined
}

export interface Template {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly category: string
  readonly website: string
  readonly questions: readonly Question[]
  readonly compose: string
}

const nameForm = /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/

/** Parses a template. @throws Invalid */
export function readTemplate(name: string, compose: string): Template {
  const tree = readTree(compose, `${name}.yaml`)
  const described = tree.kind === 'map' ? tree.entries.get('x-template') : undefined
  const at = described?.at ?? tree.at
  const wrong = (message: string) => new Invalid([{ at, field: 'x-template', message }])
  if (!nameForm.test(name)) throw wrong('must be in a file with a name of lower-case letters, digits and dashes')
  if (described?.kind !== 'map') throw wrong('is required, and must be a map')
  const text = (field: string): string => {
    const value = textOf(described.entries.get(field))
    if (value === undefined || value === '' || value.length > 300)
      throw wrong(`needs a ${field} of at most 300 characters`)
    return value
  }
  const website = text('website')
  if (URL.parse(website)?.protocol !== 'https:') throw wrong('needs a website with https')
  const questions = described.entries.get('questions')
  if (questions && questions.kind !== 'list') throw wrong('needs questions as a list')
  return {
    name,
    title: text('title'),
    description: text('description'),
    category: text('category'),
    website,
    questions: (questions?.kind === 'list' ? questions.items : []).map(one => questionOf(one, wrong)),
    compose,
  }
}

function questionOf(tree: Tree, wrong: (message: string) => Error): Question {
  const entries: ReadonlyMap<string, Tree> = tree.kind === 'map' ? tree.entries : new Map()
  const [name, ask] = [textOf(entries.get('name')), textOf(entries.get('ask'))]
  if (name === undefined || !/^[A-Z][A-Z0-9_]{0,63}$/.test(name) || ask === undefined)
    throw wrong('needs questions with a name in capital letters, and the text to ask')
  const generate = textOf(entries.get('generate'))
  const length = generate === undefined ? undefined : Number(generate)
  if (length !== undefined && !(Number.isInteger(length) && length >= 16 && length <= 128))
    throw wrong('needs 16 to 128 characters for generated answers')
  return { name, ask, generate: length, fallback: textOf(entries.get('default')) }
}

const textOf = (tree: Tree | undefined) => (tree?.kind === 'scalar' && tree.value !== null ? tree.text : undefined)

const letters = 'abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'

/**
 * Generates a password of letters and digits, which need no quoting in URLs and command lines.
 * @param random at least one random byte per character
 */
export const passwordOf = (random: Uint8Array, length: number): string =>
  Array.from({ length }, (_, at) => letters[(random[at] ?? 0) % letters.length]).join('')

/**
 * Returns a function that returns the app name of a service: the stack's name for the service `app`, otherwise the
 * stack's name and the service's name.
 */
export function templateAppName(stack: string): (service: string) => string {
  return service => {
    if (service === 'app') return stack
    const name = `${stack}-${service}`
    // Shorten the name, because app names have at most 40 characters.
    if (name.length <= 40) return name
    return `${stack.slice(0, 30).replace(/(?<!-)-+$/, '')}-${shortHash(name)}`
  }
}

/**
 * Returns the FNV-1a hash of a text, which browsers can compute synchronously. It only needs to differ between the
 * services of a stack.
 */
function shortHash(text: string): string {
  let hash = 0x811c9dc5
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  return (hash >>> 0).toString(16).padStart(8, '0')
}
