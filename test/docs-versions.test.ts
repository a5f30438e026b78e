/**
 * The documentation site contains each released version beside the current one.
 * Not repeated on the distribution's PostgreSQL: this file uses no database.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { minutes } from '../src/lib/duration.ts'

const packages = 'site/node_modules/vitepress'

/** Creates a Git repository with the real site generator and, instead of the real documents, one short page. */
function scratch(): { readonly dir: string; readonly git: (...args: string[]) => void } & Disposable {
  const dir = mkdtempSync(join(tmpdir(), 'mote-site-'))
  for (const part of ['.vitepress/config.ts', '.vitepress/theme', 'build.ts'])
    cpSync(join('site', part), join(dir, 'site', part), { recursive: true })
  symlinkSync(join(process.cwd(), 'site/node_modules'), join(dir, 'site/node_modules'))
  const pages = readFileSync('site/pages.ts', 'utf8')
  const sections = /export const sections: readonly Section\[\] = \[\n[\s\S]*?\n\]\n/
  const short = "export const sections: readonly Section[] = [{ title: 'Tutorials', pages: ['guide'] }]\n"
  expect(pages).toMatch(sections)
  writeFileSync(join(dir, 'site/pages.ts'), pages.replace(sections, short))
  writeFileSync(join(dir, '.gitignore'), 'node_modules\ndist\n.cache\n')
  mkdirSync(join(dir, 'docs'))
  const git = (...args: string[]) =>
    void execFileSync('git', ['-C', dir, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args])
  git('init', '--quiet')
  return { dir, git, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) }
}

const needs = existsSync(packages) ? '' : ' (skipped: the packages of the site are not installed: npm run docs)'

it.skipIf(needs !== '')(`older documents remain available below /v/${needs}`, { timeout: minutes(5) }, () => {
  using repository = scratch()
  const { dir, git } = repository
  const write = (version: string, text: string) => {
    writeFileSync(join(dir, 'package.json'), JSON.stringify({ version, type: 'module' }))
    writeFileSync(join(dir, 'docs/README.md'), '# Mote\n\nMote is a cloud, described in [a guide](guide.md).\n')
    writeFileSync(join(dir, 'docs/guide.md'), `# Guide\n\nA sentence that says what this page is about. ${text}\n`)
  }
  const build = () => void execFileSync(process.execPath, ['build.ts'], { cwd: join(dir, 'site'), stdio: 'pipe' })
  const made = (file: string) => readFileSync(join(dir, 'site/dist', file), 'utf8')

  write('0.1.0', 'Type the old command.')
  git('add', '.')
  git('commit', '--quiet', '--message', 'Release')
  build()
  expect(JSON.parse(made('versions.json'))).toEqual([{ version: '0.1.0 (current)', path: '/' }])

  git('tag', 'v0.1.0')
  git('tag', 'vNext')
  write('0.2.0', 'Type the new command.')
  build()
  expect(JSON.parse(made('versions.json'))).toEqual([
    { version: '0.2.0 (current)', path: '/' },
    { version: '0.1.0', path: '/v/0.1.0/' },
  ])
  expect(made('guide.html')).toContain('the new command')
  expect(made('guide.html')).toContain('Version 0.2.0')
  const old = made('v/0.1.0/guide.html')
  expect(old).toContain('the old command')
  expect(old).toContain('Version 0.1.0')
  // Pages of an old version link to pages and style sheets of the same version.
  expect(made('v/0.1.0/index.html')).toContain('href="/v/0.1.0/guide.html"')
  const [, style = ''] = /href="(\/v\/0\.1\.0\/assets\/style[^"]+)"/.exec(old) ?? []
  expect(existsSync(join(dir, 'site/dist', style)), style).toBe(true)
  expect(existsSync(join(dir, 'site/dist/v/0.1.0/llms.txt'))).toBe(false)
})
