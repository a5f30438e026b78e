/** Tests guest/warm.c, as compiled into the guest's init, on this host's page cache. */
import { execFileSync } from 'node:child_process'
import { mkdir, open, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { hasProgram } from '../../lib/programs.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { compileStatic } from './init.ts'

const source = fileURLToPath(new URL('../../../guest/warm.c', import.meta.url))
const missing = process.getuid?.() === 0 ? [] : ['root (for a chroot)']
for (const program of ['fincore', 'dd', 'mkfifo']) if (!(await hasProgram(program))) missing.push(program)
const reason = missing.length > 0 ? `skipped, missing: ${missing.join(', ')}` : ''

/**
 * Creates an image's root directory, and a program that loads its files into the page cache, as init does for a
 * template.
 */
async function image() {
  const dir = await testDir()
  const root = join(dir.path, 'root')
  const main = join(dir.path, 'main.c')
  const program = join(dir.path, 'warm')
  await writeFile(
    main,
    '#include <unistd.h>\nvoid warm_up(void);\nint main(int argc, char **argv) { return argc < 2 || chroot(argv[1]) || chdir("/") || (warm_up(), 0); }\n',
  )
  await compileStatic(program, [source, main])
  const at = (path: string) => join(root, path)
  const put = async (path: string, text: string | Buffer) => {
    await mkdir(dirname(at(path)), { recursive: true })
    await writeFile(at(path), text)
  }
  return {
    at,
    put,
    /** Flushes the file and evicts it from the page cache. */
    async forget(path: string) {
      const file = await open(at(path), 'r+')
      await file.sync()
      await file.close()
      execFileSync('dd', [`of=${at(path)}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0', 'status=none'])
    },
    warm: () => execFileSync(program, [root], { timeout: 30_000 }),
    /** Number of bytes of the file in the page cache. */
    cached: (path: string) => Number(execFileSync('fincore', ['-bno', 'RES', at(path)], { encoding: 'utf8' })),
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  }
}

describe.skipIf(missing.length > 0)(`warming the page cache ${reason}`, () => {
  it('loads the files that the image lists and no others, whatever the list contains', async () => {
    await using root = await image()
    const bytes = 1 << 20
    for (const name of ['listed', 'not-listed', 'last']) {
      await root.put(`bin/${name}`, Buffer.alloc(bytes, 1))
      await root.forget(`bin/${name}`)
      expect(root.cached(`bin/${name}`)).toBe(0)
    }
    execFileSync('mkfifo', [root.at('pipe')])
    const list = ['/bin/listed', '/no/such/file', '/bin', '/pipe', `/${'x'.repeat(5000)}`, '/bin/last']
    await root.put('usr/share/mote/warm', list.join('\n'))
    root.warm()
    expect(root.cached('bin/listed')).toBe(bytes)
    expect(root.cached('bin/last')).toBe(bytes)
    expect(root.cached('bin/not-listed')).toBe(0)
  })

  it('stops after 96 MiB', async () => {
    await using root = await image()
    await root.put('big', '')
    await truncate(root.at('big'), 200 * 2 ** 20)
    await root.put('late', Buffer.alloc(1 << 16, 1))
    await root.forget('big')
    await root.forget('late')
    await root.put('usr/share/mote/warm', '/big\n/late\n')
    root.warm()
    expect(root.cached('late')).toBe(0)
    // The limit of 96 MiB plus the kernel's read-ahead.
    expect(root.cached('big')).toBeLessThan(128 * 2 ** 20)
  })

  it('does nothing in an image without a list', async () => {
    await using root = await image()
    await root.put('bin/sh', 'x')
    expect(() => root.warm()).not.toThrow()
  })
})
