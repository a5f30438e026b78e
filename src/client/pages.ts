/** A page of a list: the `query` of operations with `limit` and `offset`. */
export interface PageQuery {
  readonly limit: number
  readonly offset: number
}

/**
 * Yields every item of a paged list. Reads page after page until one is not full.
 *
 * ```ts
 * for await (const app of everyItem(query => client.listApps({ query }))) console.log(app.name)
 * for await (const row of everyItem(async query => (await client.listAuditLogs({ query })).items)) ...
 * ```
 * @param limit items per request; the server returns at most 1000
 */
export async function* everyItem<T>(page: (query: PageQuery) => Promise<readonly T[]>, limit = 100): AsyncGenerator<T> {
  for (let offset = 0; ; offset += limit) {
    const items = await page({ limit, offset })
    yield* items
    if (items.length < limit) return
  }
}
