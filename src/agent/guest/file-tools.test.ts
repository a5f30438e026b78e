/** Tests the file tools of the guest's init, which run as a process of this host. */
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, readlink, stat, statfs, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { extract, pack } from 'tar-stream'
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

/** Runs one file tool with this input, and returns its exit code and output. */
async function tool(guest: TestGuest, command: readonly string[], input = Buffer.alloc(0)) {
  const sessionId = randomBytes(6).toString('hex')
  await guest.sessions.open({ sessionId, command, fileTool: true, input: true })
  const output = collector(onData => guest.sessions.attach(sessionId, { stdout: 0, stderr: 0 }, onData))
  const write = async () => {
    for (let at = 0; at < input.length; at += 1 << 16)
      await guest.sessions.input(sessionId, at, input.subarray(at, at + (1 << 16)))
    await guest.sessions.closeInput(sessionId)
  }
  // Writing fails if the tool exits before it has read its input.
  await write().catch(() => undefined)
  const { code } = await output.attachment.ended
  return { code, stdout: output.stdout(), stderr: output.stderr().toString() }
}

async function entriesOf(archive: Buffer) {
  const found: { name: string; type: string; mode: number; link: string; content: Buffer }[] = []
  const reader = extract()
  reader.end(archive)
  for await (const entry of reader) {
    const { name, type, mode = 0, linkname } = entry.header
    found.push({ name, type: String(type), mode, link: linkname ?? '', content: await buffer(entry) })
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1))
}

describe.skipIf(skip)('file tools of the guest (needs root)', { timeout: 30_000 }, () => {
  it('write creates a file with its parent directories and mode, and read returns its content', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const file = join(dir.path, 'a/b/file with space')
    const content = randomBytes(3 << 20)
    expect(await tool(guest, ['write', file, '640'], content)).toMatchObject({ code: 0, stderr: '' })
    expect((await readFile(file)).equals(content)).toBe(true)
    expect((await stat(file)).mode & 0o7777).toBe(0o640)
    // A replaced file keeps its mode.
    expect(await tool(guest, ['write', file], Buffer.from('new'))).toMatchObject({ code: 0 })
    expect((await stat(file)).mode & 0o7777).toBe(0o640)
    expect((await tool(guest, ['read', file])).stdout.toString()).toBe('new')
  })

  it('a canceled write leaves the old file and no temporary file', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const file = join(dir.path, 'file')
    await writeFile(file, 'old')
    await guest.sessions.open({ sessionId: 'a', command: ['write', file], fileTool: true, input: true })
    await guest.sessions.input('a', 0, Buffer.from('half of it'))
    await until(async () => (await readdir(dir.path)).length === 2, { what: 'the temporary file' })
    const output = collector(onData => guest.sessions.attach('a', { stdout: 0, stderr: 0 }, onData))
    await guest.sessions.signal('a', 1)
    expect(await output.attachment.ended).toMatchObject({ reason: 'exited', code: 129 })
    expect(await readdir(dir.path)).toEqual(['file'])
    expect(await readFile(file, 'utf8')).toBe('old')
  })

  it('errors name the path and the reason', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    for (const [command, reason] of [
      [['read', '/no/such/file'], '/no/such/file: No such file or directory'],
      [['read', '/etc'], '/etc: Is a directory'],
      [['write', '/proc/nothing/file'], '/proc/nothing/file: No such file or directory'],
      [['write', '/etc'], '/etc: Is a directory'],
      [['get', '/etc'], '/etc: Is a directory'],
      [['get', '/dev/zero'], '/dev/zero: Not a regular file'],
      [['space', '/no/such/file'], '/no/such/file: No such file or directory'],
      [['list', '/no/such/file'], '/no/such/file: No such file or directory'],
      [['remove', '/etc'], '/etc: Directory not empty'],
      [['mkdir', '/etc/hostname'], '/etc/hostname: Not a directory'],
      [['move', '/no/such/file', '/tmp/x'], '/no/such/file: No such file or directory'],
      [['pack', '/no/such/file'], '/no/such/file: No such file or directory'],
    ] as const) {
      const { code, stderr } = await tool(guest, command, Buffer.from('x'))
      expect([command.join(' '), code === 0, stderr.trim()]).toEqual([command.join(' '), false, reason])
    }
    expect(await tool(guest, ['eject', '/'])).toMatchObject({ code: 2, stderr: 'no such file tool\n' })
  })

  it('get reads a byte range of a file, or the whole file if it has changed since the given version', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const file = join(dir.path, 'file')
    const content = randomBytes(200_000)
    await writeFile(file, content)
    const get = async (...range: readonly string[]) => {
      const { code, stdout } = await tool(guest, ['get', file, ...range])
      const end = stdout.indexOf(10)
      const [bytes, version = '', first, count] = stdout.subarray(0, end).toString().split(' ')
      return { code, version, head: [bytes, first, count].map(Number), data: stdout.subarray(end + 1) }
    }
    const whole = await get()
    expect(whole).toMatchObject({ code: 0, head: [200_000, 0, 200_000] })
    expect(whole.data.equals(content)).toBe(true)
    for (const [first, last, from, to] of [
      ['0', '0', 0, 1],
      ['100000', '', 100_000, 200_000],
      ['199999', '5000000', 199_999, 200_000],
      ['-10', '', 199_990, 200_000],
      ['-900000', '', 0, 200_000],
      ['', '', 0, 200_000],
    ] as const) {
      const part = await get(first, last, whole.version)
      expect([first, part.code, part.head]).toEqual([first, 0, [200_000, from, to - from]])
      expect(part.data.equals(content.subarray(from, to))).toBe(true)
    }
    expect(await get('200000', '')).toMatchObject({ code: 0, head: [200_000, -1, 0] })
    await writeFile(file, 'another content')
    expect((await get('5', '6', whole.version)).data.toString()).toBe('another content')
    // The kernel reports no size for files in /proc.
    expect((await tool(guest, ['get', '/proc/self/comm'])).stdout.toString()).toMatch(/^-1 \S+ 0 0\n.+\n$/)
  })

  it('space reports the size of a file system, list reports the types of link targets, and move can refuse to overwrite', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const at = (name: string) => join(dir.path, name)
    const { bsize, blocks } = await statfs(dir.path)
    const [total, free, available] = (await tool(guest, ['space', dir.path])).stdout.toString().split(' ').map(Number)
    expect(total).toBe(bsize * blocks)
    expect(free).toBeGreaterThanOrEqual(available ?? 0)
    await writeFile(at('one'), '1')
    await writeFile(at('two'), '2')
    await symlink('.', at('to-directory'))
    await symlink('one', at('to-file'))
    await symlink('none', at('to-nothing'))
    const { stdout } = await tool(guest, ['list', `${dir.path}/`, '1'])
    const links = stdout
      .toString()
      .split('\n')
      .filter(line => line.startsWith('l'))
    expect(links.map(line => line.split(' ').slice(5)).sort()).toEqual([
      ['.', 'd'],
      ['none', '-'],
      ['one', 'f'],
    ])
    expect(await tool(guest, ['move', at('one'), at('two'), '1'])).toMatchObject({
      code: 1,
      stderr: `${at('two')}: File exists\n`,
    })
    expect(await tool(guest, ['move', at('one'), at('three'), '1'])).toMatchObject({ code: 0 })
    expect(await tool(guest, ['move', at('two'), at('three'), '0'])).toMatchObject({ code: 0 })
    expect(await readFile(at('three'), 'utf8')).toBe('2')
  })

  it('directories are created, listed up to a depth, moved and removed', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const at = (name: string) => join(dir.path, name)
    expect(await tool(guest, ['mkdir', at('x/y/z')])).toMatchObject({ code: 0 })
    await writeFile(at('x/file one'), 'content')
    await symlink('file one', at('x/link'))
    const lines = async (depth: string) => {
      const { stdout } = await tool(guest, ['list', at('x'), depth])
      return stdout
        .toString()
        .trimEnd()
        .split('\n')
        .map(line => line.replace(/ \d+ /, ' T ').split(' '))
    }
    expect(await lines('0')).toHaveLength(1)
    const names = (await lines('9')).map(([type, , , , name = '', to = '']) => [
      type,
      decodeURIComponent(name).slice(dir.path.length),
      to,
    ])
    expect(names.sort()).toEqual([
      ['d', '/x', ''],
      ['d', '/x/y', ''],
      ['d', '/x/y/z', ''],
      ['f', '/x/file one', ''],
      ['l', '/x/link', 'file%20one'],
    ])
    expect(await tool(guest, ['move', at('x'), at('moved')])).toMatchObject({ code: 0 })
    expect(await tool(guest, ['remove', at('moved'), '1'])).toMatchObject({ code: 0 })
    expect((await tool(guest, ['list', at('moved')])).code).toBe(1)
  })

  it('a tree survives packing and unpacking, with modes, links, long names and large files', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const long = 'n'.repeat(150)
    const large = randomBytes(1_234_567)
    const at = (name: string) => join(dir.path, 'tree', name)
    await mkdir(at(`sub/${long}`), { recursive: true })
    await writeFile(at('run'), '#!/bin/sh\n')
    await chmod(at('run'), 0o755)
    await writeFile(at(`sub/${long}/${long}`), large)
    await symlink(`sub/${long}/${long}`, at('link'))
    await writeFile(at('empty'), '')
    const packed = await tool(guest, ['pack', at('')])
    expect([packed.code, packed.stderr]).toEqual([0, ''])
    const entries = await entriesOf(packed.stdout)
    expect(entries.map(({ name }) => name)).toEqual(
      [
        'tree/',
        'tree/empty',
        'tree/link',
        'tree/run',
        'tree/sub/',
        `tree/sub/${long}/`,
        `tree/sub/${long}/${long}`,
      ].sort(),
    )
    expect(entries.find(({ name }) => name === 'tree/run')).toMatchObject({ mode: 0o755, type: 'file' })
    expect(entries.find(({ name }) => name === 'tree/link')).toMatchObject({
      link: `sub/${long}/${long}`,
      type: 'symlink',
    })
    const into = join(dir.path, 'copy')
    expect(await tool(guest, ['unpack', into], packed.stdout)).toMatchObject({ code: 0, stderr: '' })
    expect((await readFile(join(into, `tree/sub/${long}/${long}`))).equals(large)).toBe(true)
    expect(await readlink(join(into, 'tree/link'))).toBe(`sub/${long}/${long}`)
    expect((await stat(join(into, 'tree/run'))).mode & 0o7777).toBe(0o755)
    expect((await readFile(join(into, 'tree/empty'))).length).toBe(0)
  })

  it('unpack accepts archives from other programs and rejects names outside the directory', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const unpack = async (fill: (to: ReturnType<typeof pack>) => void) => {
      const archive = pack()
      fill(archive)
      archive.finalize()
      return tool(guest, ['unpack', join(dir.path, 'in')], await buffer(archive))
    }
    const unicode = `${'ü'.repeat(120)}.txt`
    expect(await unpack(to => void to.entry({ name: unicode }, 'pax'))).toMatchObject({ code: 0, stderr: '' })
    expect(await readFile(join(dir.path, 'in', unicode), 'utf8')).toBe('pax')
    for (const name of ['../out', 'a/../../out', '/etc/out', '..'])
      expect(await unpack(to => void to.entry({ name }, 'x')), name).toMatchObject({ code: 1, stderr: /not permitted/ })
    expect((await tool(guest, ['list', join(dir.path, 'out')])).code).toBe(1)
  })

  it('unpacking random bytes succeeds or exits with code 1', async () => {
    await using guestInit = await init.start()
    await using dir = await testDir()
    const guest = await guestInit.connect()
    const archive = pack()
    archive.entry({ name: 'file' }, 'content')
    archive.finalize()
    const valid = await buffer(archive)
    for (let n = 0; n < 60; n++) {
      const bytes = n % 2 ? randomBytes(1 + n * 37) : Buffer.from(valid)
      if (n % 2 === 0)
        for (let flips = 0; flips < 4; flips++) bytes[(n * 131 + flips * 57) % 600] = (n * 7 + flips) & 0xff
      const { code } = await tool(guest, ['unpack', join(dir.path, 'in')], bytes)
      expect([0, 1]).toContain(code)
    }
  })
})
