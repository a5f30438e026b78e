/** The site of `docs/`, for VitePress 1 (https://vitepress.dev/reference/site-config). */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type DefaultTheme, defineConfigWithTheme } from 'vitepress'

/** Root directory of the files to build from: those of a released version (set by build.ts), or this checkout. */
const source = process.env.MOTE_SITE_SOURCE ?? join(import.meta.dirname, '../..')
const isRelease = process.env.MOTE_SITE_SOURCE !== undefined
const { version } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
const pages: typeof import('../pages.ts') = await import(pathToFileURL(join(source, 'site/pages.ts')).href)
const { addressOf, anchorOf, llmsFullText, llmsText, rawAddressOf, sections, textOf, titleOf } = pages

export default defineConfigWithTheme<DefaultTheme.Config & { readonly version: string }>({
  title: 'Mote',
  description: 'A microVM cloud you can run yourself',
  lang: 'en',
  // Without an icon in the page, browsers request /favicon.ico, which does not exist.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  base: process.env.MOTE_SITE_BASE ?? '/',
  srcDir: join(source, 'docs'),
  outDir: process.env.MOTE_SITE_OUT ?? join(import.meta.dirname, '../dist'),
  cacheDir: './.cache',
  // The documents link to http://localhost, where the reader's own cloud runs.
  ignoreDeadLinks: 'localhostLinks',
  rewrites: path => path.replace(/(^|\/)README\.md$/, '$1index.md'),
  markdown: {
    anchor: { slugify: anchorOf },
    config: md => {
      // Do not interpret HTML in documents: `<app>` in a sentence is text, and so is `{{`.
      md.set({ html: false })
      // Remove comments on their own lines; they mark text that a program generates.
      md.core.ruler.before('block', 'comments', state => {
        state.src = state.src.replaceAll(/^<!--.*-->$/gm, '')
      })
      md.core.ruler.push('links', ({ tokens, env }) => {
        for (const { children } of tokens) if (children) mendLinks(children, env.relativePath)
      })
    },
  },
  vite: {
    plugins: [
      {
        // VitePress makes pages import Vue. The pages are outside of this package, so Vue is resolved from here.
        name: 'libraries-of-pages',
        enforce: 'pre',
        resolveId(id, importer, { ssr }) {
          if (!/^vue(?:\/|$)/.test(id)) return
          // Code for server-side rendering is written below `site`, where Node finds Vue in the site's node_modules.
          if (ssr) return { id, external: true }
          if (importer?.includes('/docs/'))
            return this.resolve(id, join(import.meta.dirname, 'config.ts'), { skipSelf: true })
        },
      },
    ],
  },
  themeConfig: {
    version,
    sidebar: sections.map(({ title, pages, isCollapsed }) => ({
      text: title,
      ...(isCollapsed === undefined ? {} : { collapsed: isCollapsed }),
      items: pages.map(page => ({ text: titleOf(page), link: addressOf(page) })),
    })),
    outline: { level: [2, 3] },
    search: { provider: 'local' },
  },
  buildEnd: ({ outDir }) => {
    // Write llms.txt only for the current version, because its addresses have no version prefix.
    if (!isRelease) {
      writeFileSync(join(outDir, 'llms.txt'), llmsText())
      writeFileSync(join(outDir, 'llms-full.txt'), llmsFullText())
    }
    for (const page of ['README', ...sections.flatMap(section => section.pages)]) {
      const file = join(outDir, rawAddressOf(page))
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, textOf(page))
    }
  },
})

interface Token {
  type: string
  attrGet(name: string): string | null
  attrSet(name: string, value: string): void
}

/**
 * Changes links, which are written for Git hosts, for the site: a link to a README.md becomes a link to its folder, and
 * a link to a file outside of `docs/`, which the site does not contain, becomes plain text.
 */
function mendLinks(tokens: Token[], page: string): void {
  let isOutside = false
  for (const token of tokens) {
    if (token.type === 'link_open') {
      const [path = '', anchor] = (token.attrGet('href') ?? '').split('#')
      const isRelative = path !== '' && !/^[a-z]+:|^\//.test(path)
      isOutside = isRelative && posix.join(posix.dirname(page), path).startsWith('..')
      if (isOutside) token.type = 'text'
      else if (isRelative && /(^|\/)(README\.md)?$/.test(path))
        token.attrSet('href', `${path.replace(/README\.md$/, '') || './'}${anchor ? `#${anchor}` : ''}`)
    } else if (token.type === 'link_close' && isOutside) {
      token.type = 'text'
      isOutside = false
    }
  }
}
