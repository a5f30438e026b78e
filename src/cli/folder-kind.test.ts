import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { smallestProjects } from '../../test/support/agent/smallest-projects.ts'
import { providerNames } from '../agent/build/plan/types.ts'
import { inspectFolder } from './folder-kind.ts'

async function kindOf(files: Readonly<Record<string, string>>) {
  const dir = await mkdtemp(join(tmpdir(), 'mote-kind-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), text)
  }
  return inspectFolder(dir)
}

describe('the kind of project in a folder', () => {
  test.each(providerNames)('is detected for a minimal %s project', async name => {
    const [file = ''] = Object.keys(smallestProjects[name])
    const { what } = (await kindOf(smallestProjects[name])) ?? {}
    if (name === 'dockerfile') expect(what).toBe('a Dockerfile')
    else expect(what).toMatch(new RegExp(String.raw`^an? .+ \(${file.replaceAll('.', String.raw`\.`)}\)$`))
  })

  test.each([
    ['a Django project with assets', { 'manage.py': '', 'package.json': '{}' }, 'a Python app (manage.py)', 8000],
    [
      'a Vite site',
      { 'index.html': '', 'package.json': '{"scripts":{"build":"vite build"}}' },
      'a Node app (package.json)',
      3000,
    ],
    ['a package.json that is not JSON', { 'package.json': '{,}', 'index.html': '' }, 'a Node app (package.json)', 3000],
    ['a site in public', { 'public/index.html': '' }, 'a static site (public/index.html)', 8080],
    ['a Dockerfile beside a Node app', { Dockerfile: 'EXPOSE 9000', 'package.json': '{}' }, 'a Dockerfile', 9000],
    ['a Containerfile', { Containerfile: 'EXPOSE 90' }, 'a Dockerfile', 90],
  ])('is the same as the one that a build detects: %s', async (_, files, what, port) =>
    expect(await kindOf(files)).toEqual({ what, port }),
  )

  test('is undefined if a build could not detect a kind either', async () =>
    expect(await kindOf({ 'README.md': '' })).toBeUndefined())
})
