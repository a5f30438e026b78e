import { expect, it } from 'vitest'
import { createPages, type WrittenPage } from './pages.ts'

/** Simulates a table with changing rows, and counts how often a page of it was written as JSON. */
function table() {
  let version = 0
  let written = 0
  return {
    change: () => void version++,
    written: () => written,
    async ask(mark: string | null, bytes = 3): Promise<WrittenPage> {
      const now = `v${version}`
      if (mark === now) return { mark, page: null, next: null }
      written++
      return { mark: now, page: JSON.stringify(`${now} ${'x'.repeat(bytes)}`), next: null }
    },
  }
}

it('an unchanged list page is served from the cache, and a changed one is written again', async () => {
  const { ask, change, written } = table()
  const pages = createPages()
  const first = await pages.latest('a', ask)
  expect(String(first.answer)).toBe('"v0 xxx"')
  expect((await pages.latest('a', ask)).answer).toBe(first.answer)
  expect(written()).toBe(1)
  change()
  expect(String((await pages.latest('a', ask)).answer)).toBe('"v1 xxx"')
  expect(String((await pages.latest('a', ask)).answer)).toBe('"v1 xxx"')
  expect(written()).toBe(2)
})

it('the cache holds a limited number of small list pages, each under its own key', async () => {
  const { ask, written } = table()
  const pages = createPages()
  const keys = Array.from({ length: 100 }, (_, n) => `page ${n}`)
  for (const key of keys) await pages.latest(key, ask)
  for (const key of keys) await pages.latest(key, ask)
  expect(written(), 'the first pages have been evicted').toBe(200)
  await pages.latest('page 99', ask)
  expect(written()).toBe(200)
  const large = (mark: string | null) => ask(mark, 200_000)
  for (let n = 0; n < 3; n++) await pages.latest('large', large)
  expect(written()).toBe(203)
})

it('a reply without a page fails if its mark (hash of the rows) differs from that of the cached page', async () => {
  const pages = createPages()
  await expect(pages.latest('a', async () => ({ mark: 'x', page: null, next: null }))).rejects.toThrow('BUG')
})
