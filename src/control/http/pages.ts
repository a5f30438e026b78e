/**
 * Pages that PostgreSQL wrote, kept with the mark of the rows that they show. Whether these are still the rows is asked each
 * time, in the statement that would write the page: where the mark is the same, no page is written, sent, and read again.
 */
import { createGenerationalCache } from '../../lib/generational-cache.ts'
import { JsonText } from './operation.ts'
import { ListPart } from './paging.ts'

export interface WrittenPage {
  /** Of the rows in their versions: another one when any of them has changed. */
  readonly mark: string
  /** JSON; null where the mark is the one that was asked with. */
  readonly page: string | null
  /** The id of its last row, where more follow. */
  readonly next: string | null
}

export interface Pages {
  /**
   * @param key all that the page depends on besides its rows
   * @param ask with the mark of the page that is there already, else null
   */
  latest(key: string, ask: (mark: string | null) => Promise<WrittenPage>): Promise<ListPart<JsonText>>
}

/** 4 MiB in all. */
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
