/** Tests what a program that reads a tenant's data can access on the host. */
import { createServer } from 'node:http'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { link, mkdir, symlink, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { CommandError, run } from '../../lib/exec.ts'
import { homeDir } from '../../lib/home.ts'
import { testDir } from '../../../test/support/agent/agent.ts'

import { isDiskFull } from '../base/disk-full.ts'
import { openWorker, takeOver, unprivilegedIn, type Worker } from './worker.ts'

const root = process.getuid?.() === 0
const signal = AbortSignal.timeout(60_000)

/** How this machine isolates workers, which takes half a second to find out. */
const unprivileged = unprivilegedIn(join(homeDir(), '.cache/mote'))

/** Opens a worker in a new directory; next to the directory is a private file of the agent. */
async function worker<T>(use: (worker: Worker, secret: string) => Promise<T>): Promise<T> {
  await using parent = await testDir()
  const found = await unprivileged()
  expect(found).toEqual({ program: expect.any(String), hasDisks: expect.any(Boolean) })
  const dir = join(parent.path, 'work')
  const secret = join(parent.path, 'secret')
  const blob = join(parent.path, 'blob')
  await mkdir(dir)
  await writeFile(secret, 'secret', { mode: 0o600 })
  await writeFile(blob, 'blob', { mode: 0o600 })
  using its = await openWorker(found, dir, { shown: [[blob, 'shown']], signal })
  return await use(its, secret)
}

describe.skipIf(!root)("a program that reads a tenant's data (needs root)", () => {
  const sh = (its: Worker, script: string) => its.run('sh', ['-c', script], { signal })
  const cannot: Readonly<Record<string, (secret: string, port: number) => string>> = {
    'read files of the agent': secret => `cat ${secret}`,
    'read what only root reads': () => 'cat /etc/shadow',
    'change what it is shown': () => 'echo changed > shown',
    'make a device': () => 'mknod device c 1 3',
    'mount anything': () => 'mount -t tmpfs none /mnt',
    'leave its root': () => 'chroot / true',
    'speak to the host': (_, port) => `node -e "fetch('http://127.0.0.1:${port}').catch(() => process.exit(1))"`,
    'signal processes of the host': () => `kill -0 ${process.pid}`,
  }

  test.each(Object.keys(cannot))('cannot %s', async name => {
    const server = createServer((_, response) => response.end()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    using _closing = { [Symbol.dispose]: () => void server.close() }
    const { port } = server.address() as AddressInfo
    await worker(async (its, secret) => {
      await expect(sh(its, cannot[name]?.(secret, port) ?? 'true')).rejects.toMatchObject({ name: 'CommandError' })
    })
  })

  test('can read the files shown to it, and change the owner of its own files to any user of an image', async () => {
    await worker(async its => {
      const said = await sh(
        its,
        'id -u; cat shown; touch file; chown 1000:70000 file; chmod 4755 file; stat -c %u:%g file',
      )
      expect(said).toBe('0\nblob1000:70000\n')
      const { uid, gid } = statSync(join(its.dir, 'file'))
      const owner = statSync(its.dir).uid
      expect([uid, gid]).toEqual([1000 + owner, 70_000 + owner])
      expect(owner).toBeGreaterThan(2_000_000_000)
    })
  })

  test('cannot write more than its disk holds; the disk keeps its content for the next program, and its loop device is freed', async context => {
    await using parent = await testDir()
    const found = await unprivileged()
    if (found.program === undefined || !found.hasDisks) return context.skip('no loop devices here')
    const dir = join(parent.path, 'work')
    const file = join(parent.path, 'disk')
    await mkdir(dir)
    using its = await openWorker(found, dir, { disk: { file, name: 'disk', bytes: 8 << 20, files: 10 }, signal })
    await sh(its, 'head -c 3000000 /dev/zero > disk/first')
    expect(statSync(file).blocks * 512).toBeGreaterThanOrEqual(8 << 20)
    const failed = await sh(its, 'head -c 9000000 /dev/zero > disk/second').catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(CommandError)
    expect(isDiskFull(failed)).toBe(true)
    expect(await sh(its, 'stat -c %s disk/first')).toBe('3000000\n')
    const tooMany = sh(its, 'rm disk/second; for n in $(seq 200); do : > disk/file$n || exit 1; done')
    await expect(tooMany).rejects.toSatisfy(isDiskFull)
    // The disk's content is not visible on the host, and no loop device is left.
    expect(await run('ls', [join(dir, 'disk')])).toBe('')
    expect(await run('losetup', ['--associated', file])).toBe('')
  })

  test("cannot start if the host has no room for the program's disk", async context => {
    await using parent = await testDir()
    const found = await unprivileged()
    if (found.program === undefined || !found.hasDisks) return context.skip('no loop devices here')
    await mkdir(join(parent.path, 'work'))
    const disk = { file: join(parent.path, 'disk'), name: 'disk', bytes: 2 ** 46, files: 10 }
    const opened = openWorker(found, join(parent.path, 'work'), { disk, signal })
    await expect(opened).rejects.toSatisfy(error => isDiskFull(error) || /File too large/.test(String(error)))
  })

  test('has other user ids than a program of another worker that runs at the same time', async () => {
    const owners = await worker(first => worker(async second => [first, second].map(({ dir }) => statSync(dir).uid)))
    expect(new Set(owners).size).toBe(2)
  })

  test('is killed when the signal of its run is aborted', async () => {
    await worker(async its => {
      const stop = new AbortController()
      const ran = its.run('sh', ['-c', 'touch started; exec sleep 1000'], { signal: stop.signal })
      ran.catch(() => undefined)
      stop.abort()
      await expect(ran).rejects.toMatchObject({ name: 'AbortError' })
    })
  })
})

test("on a host without namespaces, programs run as the agent's user and see the same paths", async () => {
  await using dir = await testDir()
  await writeFile(join(dir.path, 'blob'), 'blob')
  await mkdir(join(dir.path, 'work'))
  const none = { program: undefined, reason: 'a container' }
  using its = await openWorker(none, join(dir.path, 'work'), { shown: [[join(dir.path, 'blob'), 'shown']], signal })
  const said = await its.run('cat', ['shown'], { signal })
  expect(said).toBe('blob')
})

describe('a file that a worker created', () => {
  test.each(['a symbolic link', 'a second name', 'a directory', 'a pipe'])(
    "does not become the agent's if it is %s",
    async kind => {
      await using dir = await testDir()
      const [made, other] = [join(dir.path, 'made'), join(dir.path, 'other')]
      await writeFile(other, '')
      if (kind === 'a symbolic link') await symlink(other, made)
      else if (kind === 'a second name') await link(other, made)
      else if (kind === 'a directory') await mkdir(made)
      else await run('mkfifo', [made])
      await expect(takeOver(made)).rejects.toThrow('is not a regular file with a single name')
    },
  )
})
