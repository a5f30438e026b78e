/** Tests the file tool `watch` of the guest's init, which runs as a process of this host. */
import { randomBytes } from 'node:crypto'
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { appendFile, chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { collector, compiledInit, type TestGuest } from '../../../test/support/agent/guest-init.ts'

const skip = process.getuid?.() !== 0
let init: Awaited<ReturnType<typeof compiledInit>>
beforeAll(async () => {
  if (!skip) init = await compiledInit()
}, 60_000)
afterAll(async () => init?.[Symbol.asyncDispose]())

async function watching(guest: TestGuest, path: string, recursive = true) {
  const sessionId = randomBytes(6).toString('hex')
  await guest.sessions.open({ sessionId, command: ['watch', path, recursive ? '1' : '0'], fileTool: true })
  const output = collector(onData => guest.sessions.attach(sessionId, { stdout: 0, stderr: 0 }, onData))
  const lines = () => output.stdout().toString().split('\n').slice(0, -1)
  await until(() => lines().some(line => line.startsWith('watching ')), { what: 'the watch' })
  return {
    sessionId,
    ended: output.attachment.ended,
    lines,
    /** Waits until the tool has printed this line, and returns all lines so far. */
    after: async (line: string) => {
      await until(() => lines().includes(line), { what: `"${line}" in ${lines().join(', ')}` })
      return lines()
    },
  }
}

describe.skipIf(skip)('the `watch` command of the file tool in guests (needs root)', { timeout: 60_000 }, () => {
  it('reports files that are created, changed, moved and removed, also in new directories', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const at = (name: string) => join(dir.path, name)
    await mkdir(at('old/deep'), { recursive: true })
    const watch = await watching(guest, dir.path)
    expect(watch.lines()).toEqual(['watching 3'])
    const steps: readonly (readonly [() => Promise<unknown>, string])[] = [
      [() => writeFile(at('old/deep/a b\nc'), 'x'), `created ${at('old/deep/a%20b%0ac')}`],
      [() => appendFile(at('old/deep/a b\nc'), 'y'), `changed ${at('old/deep/a%20b%0ac')}`],
      [() => mkdir(at('new')), `created ${at('new')}`],
      [() => writeFile(at('new/file'), ''), `created ${at('new/file')}`],
      [() => chmod(at('new/file'), 0o600), `changed ${at('new/file')}`],
      [() => rename(at('new/file'), at('old/file')), `moved ${at('new/file')} ${at('old/file')}`],
      [() => rename(at('old'), at('renamed')), `moved ${at('old')} ${at('renamed')}`],
      // Changes in a directory that was moved are reported with its new path.
      [() => writeFile(at('renamed/deep/more'), ''), `created ${at('renamed/deep/more')}`],
      [() => rm(at('renamed/deep/more')), `removed ${at('renamed/deep/more')}`],
      [() => rm(at('new'), { recursive: true }), `removed ${at('new')}`],
      [() => symlink('/etc', at('link')), `created ${at('link')}`],
    ]
    for (const [step, line] of steps) {
      await step()
      await until(() => watch.lines().includes(line), { what: `${line} in ${watch.lines().join(', ')}` })
    }
    await guest.sessions.signal(watch.sessionId, 1)
    expect(await watch.ended).toMatchObject({ reason: 'signaled', code: 1 })
  })

  it('reports files that are moved into or out of the watched directory', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const at = (name: string) => join(dir.path, name)
    await mkdir(at('tree/sub'), { recursive: true })
    await mkdir(at('outside'))
    await writeFile(at('outside/file'), '')
    const watch = await watching(guest, at('tree'))
    await rename(at('outside'), at('tree/inside'))
    await watch.after(`created ${at('tree/inside')}`)
    await watch.after(`created ${at('tree/inside/file')}`)
    await rename(at('tree/sub'), at('sub'))
    await watch.after(`removed ${at('tree/sub')}`)
    await writeFile(at('sub/unseen'), '')
    await writeFile(at('tree/inside/last'), '')
    expect(await watch.after(`created ${at('tree/inside/last')}`)).not.toContainEqual(expect.stringContaining('unseen'))
    // The tool reads this change while it still waits for the second half of the move.
    renameSync(at('tree/inside'), at('inside'))
    writeFileSync(at('inside/unseen'), '')
    await writeFile(at('tree/end'), '')
    expect(await watch.after(`created ${at('tree/end')}`)).not.toContainEqual(expect.stringContaining('unseen'))
    await rename(at('tree'), at('gone'))
    expect(await watch.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(watch.lines().at(-1)).toBe(`removed ${at('tree')}`)
  })

  it('reports no changes in subdirectories without recursion, and reports the replacement of a watched file', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const at = (name: string) => join(dir.path, name)
    await mkdir(at('sub'))
    await writeFile(at('file'), '')
    const [flat, one] = [await watching(guest, `${dir.path}/`, false), await watching(guest, at('file'))]
    await writeFile(at('sub/unseen'), '')
    await writeFile(at('next'), 'new content')
    await rename(at('next'), at('file'))
    await one.after(`created ${at('file')}`)
    await appendFile(at('file'), 'x')
    expect(await one.after(`changed ${at('file')}`)).toEqual([
      'watching 1',
      `created ${at('file')}`,
      `changed ${at('file')}`,
    ])
    expect(await flat.after(`moved ${at('next')} ${at('file')}`)).not.toContainEqual(expect.stringContaining('unseen'))
  })

  it('reports its limit of 4096 directories if the tree has more', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    for (let n = 0; n < 4_200; n++) mkdirSync(`${dir.path}/${n}`)
    const watch = await watching(guest, dir.path)
    expect(watch.lines()).toEqual(['limit 4096', 'watching 4096'])
  })

  it('reports an overflow if changes were dropped because no client read them', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const sessionId = 'slow'
    await guest.sessions.open({ sessionId, command: ['watch', dir.path, '0'], fileTool: true })
    const total = async () => (await guest.sessions.list()).find(one => one.sessionId === sessionId)?.total.stdout ?? 0
    await until(async () => (await total()) > 0, { what: 'the watch' })
    // A few thousand lines fill the output that the guest retains; further changes fill the kernel's event queue.
    const name = 'n'.repeat(200)
    for (let n = 0; n < 24_000; n++) writeFileSync(`${dir.path}/${name}${n % 50}`, '')
    for (let n = 0; n < 50; n++) rmSync(`${dir.path}/${name}${n}`)
    const output = collector(onData => guest.sessions.attach(sessionId, { stdout: 0, stderr: 0 }, onData))
    await until(() => output.stdout().includes('\noverflow\n'), { what: 'the overflow' })
    await writeFile(join(dir.path, 'after'), '')
    await until(() => output.stdout().includes('/after\n'), { what: 'the next change' })
  })

  it('a path that does not exist is an error', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    await guest.sessions.open({ sessionId: 'a', command: ['watch', '/no/such/path'], fileTool: true })
    const output = collector(onData => guest.sessions.attach('a', { stdout: 0, stderr: 0 }, onData))
    expect(await output.attachment.ended).toMatchObject({ code: 1 })
    expect(output.stderr().toString()).toBe('/no/such/path: No such file or directory\n')
  })
})
