import { Type } from 'typebox'
import { int64 } from './types.ts'

export const defaultLimit = 50
export const maxLimit = 100

/** Query parameters of every paged list. Larger limits are clamped, negative ones refused. */
export const pageQuery = {
  limit: Type.Optional(
    int64({
      minimum: 0,
      default: defaultLimit,
      description: `How many at most; more than ${maxLimit} is ${maxLimit}.`,
    }),
  ),
  offset: Type.Optional(int64({ minimum: 0, default: 0, description: 'How many to skip, newest first.' })),
}

export interface Page {
  /** 1..100 */
  readonly limit: number
  readonly offset: number
}

/** The page a query asks for, clamped to what one answer may hold. */
export function pageOf(query: { readonly limit?: number; readonly offset?: number }): Page {
  return { limit: Math.min(Math.max(query.limit ?? defaultLimit, 1), maxLimit), offset: query.offset ?? 0 }
}
