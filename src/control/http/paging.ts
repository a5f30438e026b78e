/**
 * Paging of lists. An operation declares the order and the filters of its list; the server adds the parameters, the
 * cursor and the `Link` header. Without `limit` a list returns all items, so a client that does not support paging
 * misses none. The cursor holds a position in the order instead of a count, so inserts and deletions do not shift
 * pages.
 */
import { type TObject, type TProperties, type TSchema, Type } from 'typebox'
import { invalidField } from './errors.ts'
import { int64, text } from './types.ts'

export const maxLimit = 1000

export interface ListRule {
  /** Members of an item that order the list, `-` for descending. Together they identify one item. */
  readonly order: readonly [string, ...string[]]
  /**
   * Members of an item that have a query parameter of the same name, which selects the items with exactly that value.
   */
  readonly filters?: readonly string[]
  /** Member of the response that holds the items. Default: the response is the list. */
  readonly within?: string
  /**
   * Default of the parameter `limit`. Set for logs, whose responses also contain the total number; lists without it
   * return all items.
   */
  readonly defaultLimit?: number
}

type Key = readonly (string | number)[]

export interface Page {
  /** Maximum number of items, 1 to 1000; null: all items. */
  readonly limit: number | null
  readonly offset: number
  /** Position in the order after which the page begins. */
  readonly after: Key | undefined
  readonly filters: Readonly<Record<string, unknown>>
}

/** The result of a handler whose store has already selected the items of the requested page. */
export class ListPart<T> {
  readonly answer: T
  /** Position of the last item, if more items follow. */
  readonly next: Key | undefined
  constructor(answer: T, next: Key | undefined) {
    this.answer = answer
    this.next = next
  }
}

/** The query parameters of a list, in addition to the operation's own. */
export function listQuery(rule: ListRule, own: TObject | undefined, answer: TSchema | string): TObject {
  const item = itemOf(rule, answer)
  const filters: TProperties = {}
  for (const name of rule.filters ?? []) {
    const { enum: values, examples } = (item[name] ?? {}) as {
      readonly enum?: readonly unknown[]
      readonly examples?: readonly unknown[]
    }
    filters[name] = Type.Optional(
      text({
        description: `Returns only items whose \`${name}\` is exactly this value.`,
        ...(examples ? { examples } : {}),
        ...(values ? { enum: values.filter(value => value !== null) } : { maxLength: 300 }),
      }),
    )
  }
  return Type.Object({ ...pageParameters(rule), ...filters, ...own?.properties })
}

const pageParameters = ({ defaultLimit }: ListRule) => ({
  limit: Type.Optional(
    int64({
      minimum: 0,
      ...(defaultLimit === undefined ? {} : { default: defaultLimit }),
      description: `Maximum number of items in the response, 1 to ${maxLimit}; other values are clamped.${defaultLimit === undefined ? ' Default: all.' : ''}`,
      examples: [50],
    }),
  ),
  cursor: Type.Optional(
    text({
      maxLength: 1000,
      description: 'Position at which the page begins, from the `Link` header of the previous page.',
      examples: ['WyIwMTk3ZTBmMy03YzFhLTdkN2UtOGYwMC0zZjZkMGM0ZjJhMTAiXQ'],
    }),
  ),
  offset: Type.Optional(
    int64({
      minimum: 0,
      default: 0,
      description: 'Number of items to skip. New items shift the pages; prefer `cursor`.',
      examples: [0],
    }),
  ),
})

/** Returns the members of one item, as declared by the response schema. */
export function itemOf({ within }: ListRule, answer: TSchema | string): Readonly<Record<string, unknown>> {
  const { properties, items } = (answer ?? {}) as Shape
  const list = within === undefined ? items : properties?.[within]?.items
  return list?.properties ?? {}
}

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
}

/**
 * Parses the page from the query. @param query parsed by the operation's schema. @throws ApiError 400 for a cursor of
 * another list
 */
export function pageOf(rule: ListRule, query: Readonly<Record<string, unknown>>): Page {
  const { limit, offset, cursor } = query
  const filters = (rule.filters ?? []).filter(name => query[name] !== undefined).map(name => [name, query[name]])
  return {
    limit: typeof limit === 'number' ? Math.min(Math.max(limit, 1), maxLimit) : null,
    offset: typeof offset === 'number' ? offset : 0,
    after: typeof cursor === 'string' ? keyOf(rule, cursor) : undefined,
    filters: Object.fromEntries(filters),
  }
}

export const isFiltered = ({ filters }: Page) => Object.keys(filters).length > 0

function keyOf({ order }: ListRule, cursor: string): Key {
  let key: unknown
  try {
    key = JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch {
    key = undefined
  }
  const isKey = Array.isArray(key) && key.length === order.length && key.every(isPlace)
  if (!isKey) throw notOfThisList()
  return key as Key
}

const isPlace = (value: unknown) => typeof value === 'string' || typeof value === 'number'
const notOfThisList = () =>
  invalidField('cursor', 'does not belong to this list; take the cursor from the Link header of a page')

/** Selects the items of a page from a list of all items. */
export function cutList(rule: ListRule, page: Page, answer: unknown): { answer: unknown; next: Key | undefined } {
  if (answer instanceof ListPart) return answer
  if (!Array.isArray(answer)) throw new Error('BUG: a list answers its items or a part of them')
  const compare = comparing(rule)
  const placed = answer
    .map((item: unknown) => ({ item, key: placeOf(rule, item) }))
    .filter(({ item }) => hasValues(item, page.filters))
    .toSorted((a, b) => compare(a.key, b.key))
    .filter(({ key }) => page.after === undefined || compare(key, page.after) > 0)
    .slice(page.offset)
  const shown = page.limit === null ? placed : placed.slice(0, page.limit)
  return {
    answer: shown.map(({ item }) => item),
    next: shown.length < placed.length ? shown.at(-1)?.key : undefined,
  }
}

const memberOf = (item: unknown, name: string): unknown =>
  typeof item === 'object' && item !== null ? Reflect.get(item, name) : undefined

const hasValues = (item: unknown, values: Page['filters']) =>
  Object.entries(values).every(([name, value]) => memberOf(item, name) === value)

function placeOf({ order }: ListRule, item: unknown): Key {
  return order.map(name => {
    const value = memberOf(item, name.replace(/^-/, ''))
    return typeof value === 'number' ? value : String(value ?? '')
  })
}

function comparing({ order }: ListRule): (a: Key, b: Key) => number {
  return (a, b) => {
    for (const [at, name] of order.entries()) {
      const [x, y] = [a[at] ?? '', b[at] ?? '']
      if (x !== y) return x < y === name.startsWith('-') ? 1 : -1
    }
    return 0
  }
}

/** Returns the value of the `Link` header (RFC 8288). @param url of the request, without its host */
export function linkOf(url: string, next: Key): string {
  const { pathname, searchParams } = new URL(url, 'http://host')
  searchParams.set('cursor', Buffer.from(JSON.stringify(next)).toString('base64url'))
  searchParams.delete('offset')
  return `<${pathname}?${searchParams}>; rel="next"`
}

/** Selects the rows that a store reads for one page of a list ordered by id, newest first. */
export interface Window {
  /** Maximum number of rows: one more than the page shows, to find out whether more rows follow; null: all. */
  readonly take: number | null
  readonly skip: number
  /** Selects only rows with ids smaller than this one. */
  readonly before: string
}

/** Larger than every generated id: ids are UUIDs of version 7. */
const largestId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Returns the window of the newest rows. @param take maximum number of rows; null: all */
export const newest = (take: number | null): Window => ({ take, skip: 0, before: largestId })

export function windowOf({ limit, offset, after }: Page): Window {
  const before = after?.[0] ?? largestId
  if (typeof before !== 'string' || !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(before)) throw notOfThisList()
  return { take: limit === null ? null : limit + 1, skip: offset, before }
}

/** Returns the page from the rows of a window, without the extra row that shows whether more rows follow. */
export function partOf<Row extends { readonly id: string }>(
  page: Page,
  rows: readonly Row[],
): ListPart<readonly Row[]> {
  if (page.limit === null || rows.length <= page.limit) return new ListPart(rows, undefined)
  const shown = rows.slice(0, page.limit)
  return new ListPart(
    shown,
    shown.slice(-1).map(row => row.id),
  )
}

/**
 * Reads a page of a list in the store, newest first. The store's query cannot filter, so a filtered list is read
 * completely.
 */
export async function listById<Row extends { readonly id: string }, Item>(
  page: Page,
  read: (window: Window) => Promise<readonly Row[]>,
  view: (row: Row) => Item,
): Promise<Item[] | ListPart<Item[]>> {
  if (isFiltered(page)) return (await read(newest(null))).map(view)
  const { answer, next } = partOf(page, await read(windowOf(page)))
  return new ListPart(answer.map(view), next)
}
