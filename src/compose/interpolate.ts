/** Replaces variables in values, as defined by the Compose Specification. */
import { Invalid, type Place } from './faults.ts'

export interface Variables {
  /** Returns the value of a variable; undefined if it is not set. */
  get(name: string): string | undefined
  /** Called for each use of a variable that is not set and has no default. */
  missing(name: string, at: Place): void
}

const mostDepth = 10
const name = /^[A-Za-z_][A-Za-z0-9_]*/
/**
 * Maximum length of a value after the replacement. Without a limit, variables that contain others several times could
 * make values of any length.
 */
const mostLength = 65_536

/** Replaces the variables in a text. @throws Invalid for a required variable that is not set, and for wrong syntax */
export function interpolate(text: string, at: Place, variables: Variables): string {
  const [result] = expand(text, 0, false, { at, variables, depth: 0, isUsed: true })
  return result
}

interface Context {
  readonly at: Place
  readonly variables: Variables
  readonly depth: number
  /**
   * Whether the result is used; false for the default of a variable that is set, which is only parsed to find its end.
   */
  readonly isUsed: boolean
}

/**
 * Replaces variables in the text, beginning at an index.
 * @param inner whether to stop at the brace that closes an outer expression
 * @returns the expanded text, and the index after it
 */
function expand(text: string, from: number, inner: boolean, context: Context): [string, number] {
  if (context.depth > mostDepth) throw wrong(context, `nests more than ${mostDepth} variables`)
  let result = ''
  let index = from
  while (index < text.length) {
    if (result.length > mostLength) throw wrong(context, `exceeds the limit of ${mostLength} characters`)
    const next = inner ? text.slice(index).search(/[$}]/) : text.indexOf('$', index) - index
    if (next < 0) return [result + text.slice(index), text.length]
    result += text.slice(index, index + next)
    index += next
    if (text[index] === '}') return [result, index]
    if (text[index + 1] === '$') {
      result += '$'
      index += 2
      continue
    }
    const [value, end] = variable(text, index + 1, context)
    result += value
    index = end
  }
  return [result, index]
}

/** Replaces one variable. @param index the index after its `$` */
function variable(text: string, index: number, context: Context): [string, number] {
  if (text[index] !== '{') {
    const plain = name.exec(text.slice(index, index + 256))?.[0]
    if (plain === undefined) throw wrong(context, 'has a "$" that starts no variable: write "$$" for a dollar sign')
    return [valueOf(plain, context), index + plain.length]
  }
  const found = name.exec(text.slice(index + 1, index + 257))?.[0]
  if (found === undefined) throw wrong(context, 'has "${" without the name of a variable: write "$$" for a dollar sign')
  const after = index + 1 + found.length
  if (text[after] === '}') return [valueOf(found, context), after + 1]
  const operator = /^(:?[-?+])/.exec(text.slice(after, after + 2))?.[0]
  if (operator === undefined) throw wrong(context, `has \${${found} without "}"`)
  const set = context.variables.get(found)
  const has = set !== undefined && (operator.length === 1 || set !== '')
  const isUsed = context.isUsed && (operator.endsWith('+') ? has : !has)
  const inner = { ...context, isUsed, depth: context.depth + 1 }
  const [word, end] = expand(text, after + operator.length, true, inner)
  if (text[end] !== '}') throw wrong(context, `has \${${found} without "}"`)
  return [chosen(operator, { has, set, word, name: found }, context), end + 1]
}

function chosen(
  operator: string,
  {
    has,
    set,
    word,
    name,
  }: { readonly has: boolean; readonly set: string | undefined; readonly word: string; readonly name: string },
  context: Context,
): string {
  if (operator.endsWith('+')) return has ? word : ''
  if (has) return set ?? ''
  if (operator.endsWith('?') && context.isUsed)
    throw wrong(
      context,
      `needs the variable ${name}${word === '' ? '' : `: ${word}`}. Set it in .env or in the environment`,
    )
  return word
}

function valueOf(name: string, { variables, at, isUsed }: Context): string {
  const value = variables.get(name)
  if (value === undefined && isUsed) variables.missing(name, at)
  return value ?? ''
}

const wrong = ({ at }: Context, message: string) => new Invalid([{ at, field: 'value', message }])
