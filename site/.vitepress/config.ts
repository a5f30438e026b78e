/** The site of `docs/`, for VitePress 1 (https://vitepress.dev/reference/site-config). */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type DefaultTheme, defineConfigWithTheme } from 'vitepress'

/** The files of a released version (build.ts), or this checkout. */
const source = process.env.MOTE_SITE_SOURCE ?? join(import.meta.dirname, '../..')
const isRelease = process.env.MOTE_SITE_SOURCE !== undefined
const { version } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
const pages: typeof import('../pages.ts') = await import(pathToFileURL(join(source, 'site/pages.ts')).href)
const { addressOf, anchorOf, llmsFullText, llmsText, rawAddressOf, sections, textOf, titleOf } = pages

export default defineConfigWithTheme<DefaultTheme.Config & { readonly version: string }>({
  title: 'Mote',
  description: 'A microVM cloud you can run yourself',
  lang: 'en',
  // Without it, browsers ask for an icon that does not exist.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  base: process.env.MOTE_SITE_BASE ?? '/',
  srcDir: join(source, 'docs'),
  outDir: process.env.MOTE_SITE_OUT ?? join(import.meta.dirname, '../dist'),
  cacheDir: './.cache',
  // The documents name the address of a cloud on the reader's computer.
  ignoreDeadLinks: 'localhostLinks',
  rewrites: path => path.replace(/(^|\/)README\.md$/, '$1index.md'),
  markdown: {
    anchor: { slugify: anchorOf },
    config: md => {
      // Documents may not bring HTML: `<app>` in a sentence is text, and so are two braces.
      md.set({ html: false })
      // A comment on a line of its own marks text that a program writes.
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
        // The pages lie outside of this package, which has the libraries that VitePress makes them import.
        name: 'libraries-of-pages',
        enforce: 'pre',
        resolveId(id, importer, { ssr }) {
          if (!/^vue(?:\/|$)/.test(id)) return
          // What is rendered here is written below `site` first, where Node finds the libraries itself.
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
    // Its addresses are those of the current version.
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
 * Links are written for a Git host. One to an index leads to its folder here; one to a file outside of `docs/`, which
 * the site does not have, becomes its text.
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
