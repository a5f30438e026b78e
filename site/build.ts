/**
 * Builds the site in `dist`: the documents of this checkout at `/`, and those of each released version at
 * `/v/<version>/`. A release is a tag such as `v1.2.3`. The pages of a release get the current theme, and the order in
 * site/pages.ts of that tag.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const site = import.meta.dirname
const root = join(site, '..')
const cache = join(site, '.cache', 'versions')
/** Version of the theme, a part of the cache key. Increase it to build the pages of all releases again. */
const look = 1
const mostVersions = 10

interface Release {
  readonly tag: string
  readonly version: string
  readonly commit: string
}

const git = (...args: string[]) => execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).trim()

/** Returns the released versions, the newest first; none if the source tree is not a Git checkout. */
function releases(): Release[] {
  if (!existsSync(join(root, '.git'))) return []
  const lines = git('for-each-ref', '--format=%(refname:short) %(objectname)', 'refs/tags/v*').split('\n')
  const numbers = ({ version }: Release) => version.split('.').map(Number)
  return lines
    .map(line => /^(v(\d+\.\d+\.\d+)) (\w+)$/.exec(line))
    .flatMap(match => (match ? [{ tag: match[1] ?? '', version: match[2] ?? '', commit: match[3] ?? '' }] : []))
    .filter(({ tag }) => git('ls-tree', '--name-only', tag, 'site/pages.ts') !== '')
    .sort((a, b) => {
      const [left, right] = [numbers(a), numbers(b)]
      const at = left.findIndex((number, index) => number !== right[index])
      return (right[at] ?? 0) - (left[at] ?? 0)
    })
    .slice(0, mostVersions)
}

function vitepress(env: Readonly<Record<string, string>>): void {
  const program = join(site, 'node_modules', 'vitepress', 'bin', 'vitepress.js')
  execFileSync(process.execPath, [program, 'build'], { cwd: site, env: { ...process.env, ...env }, stdio: 'inherit' })
}

/** Returns the directory with the built pages of a release. It is cached, because a tag does not change. */
function built({ tag, version, commit }: Release): string {
  const made = join(cache, `${version}-${commit}-${look}`)
  if (existsSync(made)) return made
  const source = join(cache, 'source')
  rmSync(source, { recursive: true, force: true })
  mkdirSync(source, { recursive: true })
  const archive = join(cache, 'source.tar')
  git('archive', '--output', archive, tag, 'docs', 'site/pages.ts', 'package.json')
  execFileSync('tar', ['-xf', archive, '-C', source])
  const out = join(cache, 'out')
  vitepress({ MOTE_SITE_SOURCE: source, MOTE_SITE_BASE: `/v/${version}/`, MOTE_SITE_OUT: out })
  renameSync(out, made)
  return made
}

const all = releases()
vitepress({})
const dist = join(site, 'dist')
for (const release of all) cpSync(built(release), join(dist, 'v', release.version), { recursive: true })
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const current = { version: `${version} (current)`, path: '/' }
const older = all.map(release => ({ version: release.version, path: `/v/${release.version}/` }))
// The pages read this file at runtime, so that the pages of an old version also list newer versions.
writeFileSync(join(dist, 'versions.json'), `${JSON.stringify([current, ...older], null, 2)}\n`)
