import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { leaveOut } from './ignored-files.ts'
import { planProject } from './plan/index.ts'
import { isPlanFile } from './plan/project.ts'
import { recipeOf } from './recipe.ts'

type Files = Readonly<Record<string, string>>

const planOf = (files: Files) =>
  planProject({
    paths: new Set(Object.keys(files)),
    texts: new Map(Object.entries(files).filter(([path]) => isPlanFile(path))),
  })
const app: Files = { 'package.json': '{"main": "a.js"}', 'a.js': '' }

let dir = ''
beforeEach(async () => void (dir = await mkdtemp(join(tmpdir(), 'mote-ignored-'))))
afterEach(() => rm(dir, { recursive: true }))

/** Also test busybox, which is all that the small builder image has: its awk differs from Debian's. */
const programs = ['system', ...(existsSync('/usr/bin/busybox') ? ['busybox'] : [])]

async function remaining(files: Files, program: string): Promise<string[]> {
  const src = join(dir, 'src')
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(src, path)), { recursive: true })
    await writeFile(join(src, path), text)
  }
  const env = { PATH: process.env['PATH'], ...recipeOf(planOf(files)).env }
  const script = `${leaveOut.replaceAll('/tmp/mote-excluded', join(dir, 'list'))}leave_out "$0"`
  const [command = '', ...first] = program === 'busybox' ? ['busybox', 'sh'] : ['/bin/sh']
  const path = program === 'busybox' ? { PATH: await onlyBusybox() } : {}
  await promisify(execFile)(command === 'busybox' ? '/usr/bin/busybox' : command, [...first, '-euc', script, src], {
    env: { ...env, ...path },
  })
  const entries = await readdir(src, { recursive: true, withFileTypes: true })
  const found = entries.map(one => relative(src, join(one.parentPath, one.name)) + (one.isDirectory() ? '/' : ''))
  return found.filter(one => !['package.json', 'a.js', '.dockerignore'].includes(one)).sort()
}

/** Creates a directory that has busybox as its only program, like the image `web`. */
async function onlyBusybox(): Promise<string> {
  const bin = join(dir, 'bin')
  await mkdir(bin)
  for (const name of ['busybox', 'sh', 'find', 'sed', 'grep', 'rm', 'cat'])
    await symlink('/usr/bin/busybox', join(bin, name))
  return bin
}

describe.each(programs)('.dockerignore with the programs of %s', program => {
  test.each([
    ['a name at the top', 'b', ['b', 'c/b'], ['c/', 'c/b']],
    ['a leading slash', '/b', ['b', 'c/b'], ['c/', 'c/b']],
    ['a directory with what is below', 'c/', ['b', 'c/b', 'c/d/e'], ['b']],
    ['spaces, comments and empty lines', '  # no\n\n   b  \r\n', ['b', '# no'], ['# no']],
    ['a star within a name', '*.log', ['a.log', 'c/a.log', '.log'], ['c/', 'c/a.log']],
    ['a star also for hidden names', 'c/*', ['c/.d', 'c/e/f', 'd'], ['c/', 'd']],
    ['a question mark', 'b?', ['b', 'b1', 'b12'], ['b', 'b12']],
    ['classes', '[b-d]1', ['a1', 'b1', 'd1', 'e1'], ['a1', 'e1']],
    ['two ranges', '[b-dX-Z]1', ['a1', 'c1', 'Y1'], ['a1']],
    ['a class that excludes', '[^b]1', ['a1', 'b1'], ['b1']],
    ['a class that runs backwards', '[d-b]', ['[d-b]', 'c'], ['c']],
    ['two stars first', '**/n', ['n', 'c/n/x', 'c/nn'], ['c/', 'c/nn']],
    ['two stars in the middle', 'c/**/n', ['c/n', 'c/d/e/n', 'n'], ['c/', 'c/d/', 'c/d/e/', 'n']],
    ['two stars last', 'c/**', ['c/d', 'c/e/f', 'd'], ['c/', 'd']],
    ['two stars in a name', '**.log', ['a.log', 'c/a.log', 'b'], ['b', 'c/']],
    ['an exception below an excluded directory', 'c\n!c/d', ['c/d', 'c/e', 'c/f/g'], ['c/', 'c/d']],
    ['repeated patterns, of which the last decides', 'b\n!b\nb', ['b'], []],
    ['signs of regular expressions', 'a.b+(1)|$^{2}', ['a.b+(1)|$^{2}', 'aXb'], ['aXb']],
    ['an escaped star', '\\*', ['*', 'b'], ['b']],
    ['parents', '../c/../b/./d', ['b/d', 'c/d'], ['b/', 'c/', 'c/d']],
    ['names with spaces and quotes', "it's a*", ["it's a b", 'it'], ['it']],
    ['everything', '*', ['b', 'c/d'], []],
    ['only exceptions', '!b', ['b', 'c'], ['b', 'c']],
  ] as const)('handles %s as Docker does', async (_, text, paths, left) => {
    const files = Object.fromEntries(paths.map(path => [path, '']))
    expect(await remaining({ ...app, ...files, '.dockerignore': text }, program)).toEqual(left.toSorted())
  })
})

test('files at the top that decide the build plan are never excluded, files of the same name below are', async () => {
  const files = { ...app, 'yarn.lock': '', Procfile: 'web: node a.js', 'b/package.json': '{}', '.dockerignore': '**' }
  expect(await remaining(files, 'system')).toEqual(['Procfile', 'yarn.lock'])
})

test('with a Dockerfile, the plan leaves .dockerignore to buildah', () => {
  expect(planOf({ ...app, Dockerfile: 'FROM scratch', '.dockerignore': 'b' }).ignored).toBeUndefined()
  expect(planOf({ ...app, '.dockerignore': '# nothing\n' }).ignored).toBeUndefined()
})

test('too many patterns are refused with the line number', () => {
  const wide = `${'?'.repeat(500)}\n`.repeat(40)
  expect(() => planOf({ ...app, '.dockerignore': wide })).toThrow(
    /^\.dockerignore, line \d+: The patterns are too long/,
  )
  const long = `${'a'.repeat(1000)}\n`.repeat(70)
  expect(() => planOf({ ...app, '.dockerignore': long })).toThrow(/^\.dockerignore, line 1: The file is longer than/)
})
