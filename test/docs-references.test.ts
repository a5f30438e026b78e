/** Files, identifiers and link targets that the documentation names exist. */
import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, it } from 'vitest'
import { anchorOf } from '../site/pages.ts'

const folders = 'src,dashboard,test,bench,scripts,guest,packaging,docs,site,bin,.github,.devcontainer'
/** Files and folders of the repository, without installed packages and build output. */
const paths = globSync(['*', '.*', `{${folders}}/**`], {
  exclude: ['**/node_modules/**', '**/dist/**', '.git', '.cache'],
})
const texts = paths.filter(path => path.endsWith('.md')).map(page => ({ page, text: readFileSync(page, 'utf8') }))

/** Returns the texts in backticks outside of fenced code blocks. */
const namesIn = (text: string) =>
  [...text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/`([^`\n]+)`/g)].map(match => match[1] ?? '')

it('every relative link leads to an existing file and heading', () => {
  const missing = texts.flatMap(({ page, text }) =>
    [...text.matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].flatMap(([link, path = '', heading]) => {
      const target = path === '' ? page : normalize(join(dirname(page), path))
      const isThere = statSync(target, { throwIfNoEntry: false }) !== undefined
      return isThere && (heading === undefined || anchorsOf(target).has(heading)) ? [] : [`${page}: ${link}`]
    }),
  )
  expect(missing).toEqual([])
})

function anchorsOf(page: string): Set<string> {
  return new Set([...readFileSync(page, 'utf8').matchAll(/^#+ (.+)$/gm)].map(match => anchorOf(match[1] ?? '')))
}

const isSource = /^[\w./-]+\.(?:tsx?|mjs|c|sql|css|md)$/
const isBelowFolder = new RegExp(`^(?:${folders.replaceAll(',', '|').replaceAll('.', '\\.')})/[\\w./-]+$`)
const isBuilt = /^(?:dashboard\/|site\/)?dist(?:\/|$)/

// Documents shorten paths to a unique suffix, such as `vms/placer.ts`.
it('every source file and folder that a document names exists', () => {
  const ends = new Set(paths.flatMap(path => path.split('/').map((_, at, parts) => parts.slice(at).join('/'))))
  const named = texts.flatMap(({ page, text }) =>
    namesIn(text)
      .filter(name => (isSource.test(name) && !name.startsWith('/')) || isBelowFolder.test(name))
      .filter(name => !isBuilt.test(name))
      .map(name => ({ page, name })),
  )
  expect(named.length).toBeGreaterThan(100)
  const missing = named.filter(({ name }) => !ends.has(name.replace(/^\.\//, '').replace(/\/$/, '')))
  expect(missing).toEqual([])
})

/** Matches camelCase and PascalCase names, which prose does not contain. */
const isIdentifier = /^(?:[a-z]+\.)*(?:[a-z]+|[A-Z][a-z]+)[A-Z]\w*(?:\.\w+)*(?:\(.*\))?$/

it('every identifier that a document names occurs in the code', () => {
  const code = paths.filter(path => /\.(?:tsx?|mjs|c|js)$/.test(path) && path !== 'test/docs-references.test.ts')
  const words = new Set(code.flatMap(file => readFileSync(file, 'utf8').match(/[A-Za-z_]\w*/g) ?? []))
  const named = texts.flatMap(({ page, text }) =>
    namesIn(text)
      .filter(name => isIdentifier.test(name) && !foreign.has(name))
      .map(name => ({ page, name })),
  )
  expect(named.length).toBeGreaterThan(50)
  const missing = named.filter(({ name }) =>
    (name.replace(/\(.*/, '').match(/\w+/g) ?? []).some(word => !words.has(word)),
  )
  expect(missing).toEqual([])
})

/** Identifiers of other programs, which do not occur in our code. */
const foreign = new Set(['validateEvent'])
