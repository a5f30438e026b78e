/**
 * Derives operations for single items of a list: they call the list's handler and return the item that the path names.
 */
import { type TObject, type TSchema, Type } from 'typebox'
import { notFound } from './errors.ts'
import type { Call, Handler, Operation } from './operation.ts'
import { ListPart, type Page } from './paging.ts'
import { text } from './types.ts'

/** Declares an operation that returns one item of the list. */
export interface ItemRule {
  /** The id of the derived operation. */
  readonly id: string
  /** The path of the derived operation: the path of the list plus one parameter. */
  readonly path: string
  /** Member of an item that the last path parameter is compared with. */
  readonly by: string
  readonly summary: string
  readonly description?: string
  /** Member of the list's response that holds the items. Default: the response is the list. */
  readonly within?: string
  /** Member of an item that `?wait=` can wait for. */
  readonly waits?: string
}

/** Derives the operation for one item from the operation of its list. */
export function itemOperation(listId: string, list: Operation, item: ItemRule): Operation {
  const { tag, auth, scope, project, adminOnly, asksOthers, params, answer } = list
  return {
    tag,
    auth,
    scope,
    project,
    ...(adminOnly ? { adminOnly } : {}),
    ...(asksOthers ? { asksOthers } : {}),
    ...(item.waits === undefined ? {} : { waits: item.waits }),
    method: 'GET',
    path: item.path,
    summary: item.summary,
    ...(item.description === undefined ? {} : { description: item.description }),
    params: Type.Object({
      ...(params as TObject | undefined)?.properties,
      [lastParam(item.path)]: itemParameter(item, itemSchema(answer, item.within)),
    }),
    answer: itemSchema(answer, item.within),
    addition: true,
    itemOf: { list: listId, by: item.by, ...(item.within === undefined ? {} : { within: item.within }) },
  }
}

/** Derives the schema of the last path parameter from the member of the item that it is compared with. */
function itemParameter({ by }: ItemRule, item: TSchema | 'free') {
  const { examples } = { ...(item as Shape).properties?.[by] }
  return text({
    maxLength: 300,
    description: `The \`${by}\` of the item, from the list.`,
    ...(examples ? { examples: examples.map(String) } : {}),
  })
}

interface Shape {
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: TSchema
}

function itemSchema(answer: Operation['answer'], within: string | undefined): TSchema | 'free' {
  if (typeof answer === 'string') return 'free'
  const shape = answer as Shape
  const items = within === undefined ? shape.items : shape.properties?.[within]?.items
  if (!items) throw new Error('BUG: an item of what is no list')
  return items
}

const lastParam = (path: string) => /\{(\w+)\}$/.exec(path)?.[1] ?? ''

const whole: Page = { limit: null, offset: 0, after: undefined, filters: {} }

/**
 * Reads the list and finds the item in it. For lists where this is too slow, the operation for single items has a
 * handler of its own.
 */
export function itemHandler(operation: Operation, list: Handler<never> | undefined): Handler<never> | undefined {
  const { itemOf, path } = operation
  if (!itemOf || !list || !('read' in list)) return undefined
  return {
    read: async call => {
      // The list's handler needs the same call, but with an empty query and without paging.
      const found: unknown = await list.read({ ...(call as object), query: {}, page: whole } as Call<never>)
      const answer: unknown = found instanceof ListPart ? found.answer : found
      const items: unknown = itemOf.within === undefined ? answer : member(answer, itemOf.within)
      if (!Array.isArray(items)) throw new Error('BUG: an item of what is no list')
      const wanted = member((call as { readonly params: unknown }).params, lastParam(path))
      const item: unknown = items.find((one: unknown) => String(member(one, itemOf.by)) === wanted)
      if (item === undefined) throw notFound()
      return item as never
    },
  }
}

const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
