/** Contents of the documentation site: the pages of `docs/`, their order, and plain texts for language models (llms.txt). */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const docs = join(import.meta.dirname, '../docs')

export interface Section {
  readonly title: string
  /** Paths of the section's pages below `docs/`, without `.md`. */
  readonly pages: readonly string[]
  /** Whether the section is collapsed in the sidebar until the reader opens it. */
  readonly isCollapsed?: boolean
}

/** All pages of `docs/` except the index page, in the order of the sidebar. */
export const sections: readonly Section[] = [
  {
    title: 'Tutorials',
    pages: [
      'quickstart',
      'tutorials/first-app',
      'tutorials/worker-and-cron',
      'tutorials/database',
      'tutorials/own-apps',
      'tutorials/three-hosts',
      'examples',
    ],
  },
  {
    title: 'How-to guides',
    pages: [
      ...['dashboard', 'builds', 'compose-files', 'runs', 'sessions', 'storage', 'databases', 'networking', 'billing'],
      ...['operating', 'gateway', 'agent'],
    ],
  },
  {
    title: 'Reference',
    pages: [
      'cli',
      'commands',
      'mote-toml',
      'contract',
      'api',
      'errors',
      'api-statuses',
      'glossary',
      'anywhere',
      'benchmarks',
    ],
  },
  {
    title: 'Explanation',
    pages: ['architecture', 'compute', 'environment', 'engine', 'identity', 'security', 'scale', 'comparison'],
  },
  { title: 'Change Mote', pages: ['style', 'adding-an-endpoint'] },
  { title: 'Decisions', pages: pagesIn('decisions'), isCollapsed: true },
  { title: 'Notes', pages: pagesIn('notes'), isCollapsed: true },
]

/** Returns the pages of a folder of `docs/`, its index (README.md) first. */
function pagesIn(folder: string): string[] {
  const names = readdirSync(join(docs, folder)).filter(name => name.endsWith('.md') && name !== 'README.md')
  return ['README', ...names.sort().map(name => name.slice(0, -'.md'.length))].map(name => `${folder}/${name}`)
}

export const textOf = (page: string): string => readFileSync(join(docs, `${page}.md`), 'utf8')

/** Returns the title of a page: its first heading. */
export const titleOf = (page: string): string => /^# (.+)$/m.exec(textOf(page))?.[1] ?? page

/** Returns the address of a page in the site. The address of a README.md is that of its folder. */
export const addressOf = (page: string): string => `/${page.replace(/(^|\/)README$/, '$1')}`

/**
 * Returns the anchor of a heading in the same form as Git hosts (lower case, without punctuation, dashes for spaces),
 * so that a link is valid on a Git host and in the site.
 */
export const anchorOf = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

/** Returns a page's first sentence in plain text; for a decision record, the first sentence of the section Decision. */
export function summaryOf(page: string): string {
  const text = textOf(page).replaceAll(/^```[\s\S]*?^```$/gm, '')
  return sentenceOf(text.split(/^## Decision$/m)[1] ?? '') ?? sentenceOf(text) ?? ''
}

/** Returns the first sentence of more than 35 characters that is neither in a heading nor in a table. */
function sentenceOf(text: string): string | undefined {
  const plain = text
    .split(/\n{2,}/)
    .map(paragraph => paragraph.replaceAll('\n', ' ').replace(/^(?:[-*]|\d+\.) /, ''))
    .filter(paragraph => /^[\p{L}`*[(]/u.test(paragraph))
    .join(' ')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('**', '')
  const sentences = plain.match(/.+?[.:](?=\s|$)/g) ?? []
  return sentences
    .find(sentence => sentence.length > 35)
    ?.trim()
    .replace(/:$/, '.')
}

/** Returns llms.txt, an overview of the pages for language models. https://llmstxt.org */
export function llmsText(): string {
  const listOf = (pages: readonly string[]) =>
    pages.map(page => `- [${titleOf(page)}](${rawAddressOf(page)}): ${summaryOf(page)}`).join('\n')
  const open = sections.filter(one => !one.isCollapsed).map(({ title, pages }) => `## ${title}\n\n${listOf(pages)}\n`)
  const optional = sections.filter(one => one.isCollapsed).flatMap(one => one.pages)
  const top = `# Mote\n\n> ${summaryOf('README')}\n\nAll pages but the optional ones in one file: [llms-full.txt](/llms-full.txt)\n`
  return [top, ...open, `## Optional\n\n${listOf(optional)}\n`].join('\n')
}

/** Returns the full text of all pages for language models, without decisions and notes, which are mostly history. */
export function llmsFullText(): string {
  const pages = sections.filter(one => !one.isCollapsed).flatMap(one => one.pages)
  return ['README', ...pages].map(page => `<!-- ${rawAddressOf(page)} -->\n\n${textOf(page).trim()}\n`).join('\n')
}

/** Returns the address of a page's Markdown source, which the site serves beside its HTML. */
export const rawAddressOf = (page: string): string => `/${page}.md`
