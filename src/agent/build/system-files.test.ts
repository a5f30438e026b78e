import { execFile } from 'node:child_process'
import { copyFile, mkdir, readdir, realpath, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { admitsPython } from './python-script.ts'
import { carryLibraries } from './system-files.ts'

const run = promisify(execFile)

/** Runs a Python program and returns its exit code and output. */
const python = (program: string, args: readonly string[]): Promise<{ code: number; stdout: string }> =>
  run('python3', ['-c', program, ...args]).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: { code: number; stdout: string }) => ({ code: error.code, stdout: error.stdout }),
  )

describe('the libraries that are copied into an image', () => {
  /** Every test host has git, which links libraries that Debian's base images lack. */
  const program = async () => realpath((await run('which', ['git'])).stdout.trim())
  const named = async () => {
    const { stdout } = await run('ldd', [await program()])
    return stdout
      .split('\n')
      .flatMap(line => /^\s*(\S+) => /.exec(line)?.[1] ?? [])
      .filter(name => !/^lib(?:c|m|dl|pthread|rt|z|resolv|gcc_s|stdc\+\+|crypto|ssl)\.so/.test(name))
  }

  test("include those that a program links and that Debian's base images lack", async () => {
    await using dir = await testDir()
    const [top, target] = [join(dir.path, 'app'), join(dir.path, 'lib')]
    await mkdir(join(top, 'bin'), { recursive: true })
    await copyFile(await program(), join(top, 'bin', 'tool'))
    const wanted = await named()
    expect(wanted.length).toBeGreaterThan(0)
    const { code, stdout } = await python(carryLibraries, [top, target])
    expect(code).toBe(0)
    expect(await readdir(target)).toEqual(wanted.sort())
    expect(stdout).toContain(wanted[0])
  })

  test('exclude those that the app contains itself', async () => {
    await using dir = await testDir()
    const [top, target] = [join(dir.path, 'app'), join(dir.path, 'lib')]
    await mkdir(top)
    await copyFile(await program(), join(top, 'module.node'))
    for (const name of await named()) await writeFile(join(top, name), '')
    await python(carryLibraries, [top, target])
    expect(await readdir(target).catch(() => [])).toEqual([])
  })

  test.each([
    ['an empty file', Buffer.alloc(0)],
    ['a header that ends early', Buffer.from('\x7fELF\x02\x01\x01')],
    ['a header that points nowhere', Buffer.concat([Buffer.from('\x7fELF\x02\x01\x01'), Buffer.alloc(90, 0xff)])],
    ['a text', Buffer.from('GROUP ( libx.so.1 )\n')],
  ])(
    'are collected although the app contains %s, a broken link and a directory that are named like libraries',
    async (_, content) => {
      await using dir = await testDir()
      const top = join(dir.path, 'app')
      await mkdir(join(top, 'dir.so'), { recursive: true })
      await writeFile(join(top, 'lib.so'), content)
      await symlink('/nowhere', join(top, 'link.so'))
      expect(await python(carryLibraries, [top, join(dir.path, 'lib')])).toEqual({ code: 0, stdout: '' })
    },
  )
})

describe("the Python program that checks whether Debian's Python matches the wanted version", async () => {
  const { stdout } = await run('python3', ['-c', 'import sys; print("%d %d %d" % sys.version_info[:3])'])
  const [major = 3, minor = 0, patch = 0] = stdout.trim().split(' ').map(Number)
  test.each([
    [`${major}`, 0],
    [`${major}.${minor}`, 0],
    [`${major}.${minor}.${patch}`, 0],
    [`>=${major}.${minor - 1},<${major + 1}`, 0],
    [`~=${major}.${minor - 1}`, 0],
    [`${major}.${minor - 1}`, 1],
    [`${major}.${minor}.${patch + 1}`, 1],
    [`>=${major}.${minor + 1}`, 1],
    [`<${major}.${minor}`, 1],
  ])('exits for %s with code %s', async (wanted, code) => {
    expect((await python(admitsPython, [wanted])).code).toBe(code)
  })
})
