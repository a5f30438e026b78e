/**
 * Caches list pages that PostgreSQL writes as JSON, each with a mark (a hash of its row versions). The query for a page
 * contains the mark of the cached page. If the rows are unchanged, PostgreSQL neither writes nor sends the page again.
 */
import { createGenerationalCache } from '../../lib/generational-cache.ts'
import { JsonText } from './operation.ts'
import { ListPart } from './paging.ts'

export interface WrittenPage {
  /** A hash of the row versions, which changes when any of the rows changes. */
  readonly mark: string
  /** The page as JSON; null if the mark equals the one in the query. */
  readonly page: string | null
  /** Id of the page's last row, if more rows follow; otherwise null. */
  readonly next: string | null
}

export interface Pages {
  /**
   * Returns the current page, from the cache if its rows are unchanged.
   * @param key everything that the page depends on besides its rows
   * @param ask queries the page with the mark of the cached page, or null
   */
  latest(key: string, ask: (mark: string | null) => Promise<WrittenPage>): Promise<ListPart<JsonText>>
}

/** Limits of the cache: 4 MiB for all pages together. */
const mostPages = 32
const mostBytes = 128 * 1024

export function createPages(): Pages {
  const cached = createGenerationalCache<{ readonly mark: string; readonly json: JsonText }>(mostPages)
  return {
    async latest(key, ask) {
      const known = cached.get(key)
      const { mark, page, next } = await ask(known?.mark ?? null)
      if (page === null) {
        if (known?.mark !== mark) throw new Error('BUG: no page was written, and it is not the one that is known')
        return partOf(known.json, next)
      }
      const json = new JsonText(page)
      if (json.bytes.length <= mostBytes) cached.set(key, { mark, json })
      else cached.forget(key)
      return partOf(json, next)
    },
  }
}

const partOf = (json: JsonText, next: string | null) => new ListPart(json, next === null ? undefined : [next])
