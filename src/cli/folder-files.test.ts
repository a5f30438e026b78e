import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sourceFiles } from './folder-files.ts'

let dir = ''
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-folder-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const put = async (files: Readonly<Record<string, string>>) => {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), text)
  }
}
const paths = async (below = '') => (await sourceFiles(join(dir, below))).map(({ path }) => path)

describe('the list of source files of a folder', () => {
  it('excludes build output, secrets and machine-specific files', async () => {
    await put({
      'package.json': '{}',
      'src/index.js': '1',
      '.env': 'KEY=1',
      '.env.example': 'KEY=',
      '.DS_Store': '',
      'node_modules/a/index.js': '',
      'packages/b/node_modules/c/index.js': '',
      '.git/HEAD': '',
      'app/__pycache__/x.pyc': '',
      '.venv/bin/python': '',
    })
    expect(await paths()).toEqual(['.env.example', 'package.json', 'src/index.js'])
  })

  it('contains executable bits and link targets', async () => {
    await put({ 'run.sh': '#!/bin/sh\n' })
    await chmod(join(dir, 'run.sh'), 0o755)
    await symlink('run.sh', join(dir, 'start'))
    expect(await sourceFiles(dir)).toEqual([
      { path: 'run.sh', sizeBytes: 10, isExecutable: true },
      { path: 'start', sizeBytes: 0, isExecutable: false, target: 'run.sh' },
    ])
  })

  it('respects .gitignore files in, below and above the folder', async () => {
    await put({
      '.gitignore': '*.log\n/build\n!keep.log\nshop/secret.txt\n',
      'shop/.gitignore': 'tmp/\n!important.log\n',
      'shop/index.html': '',
      'shop/a.log': '',
      'shop/keep.log': '',
      'shop/important.log': '',
      'shop/secret.txt': '',
      'shop/tmp/x': '',
      'shop/build': '',
      'shop/deep/.gitignore': '*\n!.gitignore\n',
      'shop/deep/y': '',
    })
    execFileSync('git', ['init', '--quiet', dir])
    const git = execFileSync('git', ['-C', join(dir, 'shop'), 'ls-files', '-z', '--others', '--exclude-standard'])
    expect(await paths('shop')).toEqual(git.toString().split('\0').filter(Boolean).toSorted())
    expect(await paths('shop')).toContain('important.log')
  })

  it('respects the .dockerignore beside a Dockerfile, but always includes both files', async () => {
    await put({
      Dockerfile: 'FROM scratch',
      '.dockerignore': '# not needed\nDocker*\ndocs\n**/*.md\n',
      'a.md': '',
      'docs/x': '',
      'src/docs/y': '',
      'src/b.md': '',
      'src/main.c': '',
    })
    expect(await paths()).toEqual(['.dockerignore', 'Dockerfile', 'src/docs/y', 'src/main.c'])
    await writeFile(join(dir, '.dockerignore'), '*\n!src\n')
    expect(await paths(), 'the builder reads exceptions itself').toContain('a.md')
  })

  it('includes .env if a .gitignore re-includes it', async () => {
    await put({ '.env': 'PUBLIC=1', '.gitignore': '!.env\n' })
    expect(await paths()).toEqual(['.env', '.gitignore'])
  })
})
