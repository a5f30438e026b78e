/**
 * The documentation site: its sidebar, and the output of its build.
 * Not repeated on the distribution's PostgreSQL: this file uses no database.
 */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { addressOf, llmsFullText, llmsText, rawAddressOf, sections, summaryOf, titleOf } from '../site/pages.ts'

const pages = sections.flatMap(section => section.pages)

it('every document except the index is in the sidebar once', () => {
  const written = globSync('docs/**/*.md').map(file => relative('docs', file).slice(0, -'.md'.length))
  expect([...pages, 'README'].sort()).toEqual(written.sort())
})

it('the index links to every page that is not in a subfolder', () => {
  const index = readFileSync('docs/README.md', 'utf8')
  expect(pages.filter(page => !page.includes('/') && !index.includes(`(${page}.md)`))).toEqual([])
})

it('every page has a title and a summary', () => {
  const poor = pages.filter(page => titleOf(page) === page || !/^.{20,600}[.]$/s.test(summaryOf(page)))
  expect(poor.map(page => `${page}: ${summaryOf(page)}`)).toEqual([])
})

it('llms.txt has the format of llmstxt.org, and lists every page once', () => {
  const text = llmsText()
  expect(text).toMatch(/^# Mote\n\n> Mote is .+\n/)
  expect(text.match(/^## .+$/gm)?.at(-1)).toBe('## Optional')
  expect([...text.matchAll(/^- \[[^\]]+\]\((.+?)\): .+$/gm)].map(match => match[1])).toEqual(pages.map(rawAddressOf))
})

const dist = 'site/dist'
const built = statSync(join(dist, '.built-from'), { throwIfNoEntry: false })
const sources = ['site/pages.ts', 'site/build.ts', 'site/.vitepress/config.ts', ...globSync('docs/**/*.md')]
const isFresh = built !== undefined && sources.every(file => statSync(file).mtimeMs <= built.mtimeMs)
const skipped = isFresh ? '' : ' (skipped: not built from these documents; build it with: npm run docs)'

describe.skipIf(skipped !== '')(`the built site${skipped}`, () => {
  const fileOf = (address: string) => join(dist, address.endsWith('/') ? `${address}index.html` : `${address}.html`)
  // The list is empty if the site is outdated: vitest runs this function even if the tests are skipped.
  const html = new Map(
    (isFresh ? ['README', ...pages] : []).map(page => [page, readFileSync(fileOf(addressOf(page)), 'utf8')]),
  )

  it('has every page with its heading, and no other pages', () => {
    for (const text of html.values()) {
      expect(text).toMatch(/<h1 id="[^"]+"/)
      expect(text).not.toContain('&lt;!--')
    }
    const made = globSync(`${dist}/**/*.html`).filter(
      file => !file.endsWith('/404.html') && !file.startsWith(`${dist}/v/`),
    )
    expect(made.length).toBe(html.size)
  })

  it('has no internal link to a missing page or heading', () => {
    const dead: string[] = []
    let links = 0
    for (const [page, text] of html) {
      const here = dirname(addressOf(page).replace(/\/$/, '/index'))
      for (const [, href = ''] of text.matchAll(/<a [^>]*?href="([^"]*)"/g)) {
        if (/^[a-z]+:/.test(href)) continue
        links++
        const [path = '', anchor] = href.split('#')
        const at = path === '' ? fileOf(addressOf(page)) : join(dist, path.startsWith('/') ? path : join(here, path))
        const file = at.endsWith('/') || at === dist ? join(at, 'index.html') : at
        const target = existsSync(file) ? readFileSync(file, 'utf8') : undefined
        const isThere = target !== undefined && (!anchor || target.includes(`id="${decodeURIComponent(anchor)}"`))
        if (!isThere) dead.push(`${page}: ${href}`)
      }
    }
    expect(links).toBeGreaterThan(500)
    expect(dead).toEqual([])
  })

  it('loads nothing from other hosts', () => {
    const loaded = [...html.values()].flatMap(text =>
      [...text.matchAll(/<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="([^"]+)"/g)].map(match => match[1] ?? ''),
    )
    const styles = globSync(`${dist}/assets/*.css`).flatMap(file =>
      [...readFileSync(file, 'utf8').matchAll(/url\(["']?([^"')]+)/g)].map(match => match[1] ?? ''),
    )
    expect(loaded.length).toBeGreaterThan(html.size)
    expect([...loaded, ...styles].filter(url => /^(?:https?:)?\/\//.test(url))).toEqual([])
  })

  it('has settings and commands in its search index', () => {
    const [file = ''] = globSync(`${dist}/assets/chunks/@localSearchIndexroot*.js`)
    const index = readFileSync(file, 'utf8').toLowerCase()
    const words = ['restarts', 'rollback', 'firecracker', 'mote.toml']
    expect(words.filter(word => !index.includes(`["${word}",`))).toEqual([])
  })

  it('contains llms.txt, and the Markdown source of each page', () => {
    expect(readFileSync(join(dist, 'llms.txt'), 'utf8')).toBe(llmsText())
    expect(readFileSync(join(dist, 'llms-full.txt'), 'utf8')).toBe(llmsFullText())
    expect(pages.filter(page => !existsSync(join(dist, rawAddressOf(page))))).toEqual([])
  })
})
