import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { cachedDir } from './cache.ts'
import { configDisk } from './config-disk.ts'
import { cpio } from './cpio.ts'
import { type Frame, frameReader } from './frames.ts'
import { tscKhzFrom } from './tsc.ts'
import { lz4Block } from './vmlinux.ts'

describe('frames', () => {
  const text =
    'noise L 1 1 1 3\nold\n\nH abc 5000 2\nL 1 1000 1 5\nhello\nL 2 4000 2 3\na\nb\nL 3 6000 1 0\n\nL 4 6001 3 4\nüx\n\n'
  const expected: Frame[] = [
    { seq: 1, stream: 'stdout', ageUs: 4000, line: 'hello' },
    { seq: 2, stream: 'stderr', ageUs: 1000, line: 'a\nb' },
    { seq: 3, stream: 'stdout', ageUs: 0, line: '' },
    { seq: 4, stream: 'system', ageUs: 0, line: 'üx\n' },
  ]
  const bytes = Buffer.from(text)
  // Splits the stream into two parts at each possible byte.
  test.each([...bytes.keys()])('are parsed from a stream that is split at byte %i', cut => {
    const observed: Frame[] = []
    const read = frameReader('abc', frames => observed.push(...frames))
    read(bytes.subarray(0, cut))
    read(bytes.subarray(cut))
    expect(observed).toEqual(expected)
  })
  test('are parsed from a stream of single bytes', () => {
    const observed: Frame[] = []
    const read = frameReader('abc', frames => observed.push(...frames))
    for (const byte of bytes) read(Buffer.from([byte]))
    expect(observed).toEqual(expected)
  })
  test('that precede the hello line of this connection are skipped', () => {
    const observed: Frame[] = []
    const read = frameReader('xyz', frames => observed.push(...frames))
    read(bytes)
    expect(observed).toEqual([])
  })
})

test('the config disk preserves newlines and percent signs in the environment', () => {
  const disk = configDisk({
    argv: ['/bin/a', '100%'],
    env: { KEY: 'one\ntwo=%0A' },
    cwd: '/',
    uid: 1,
    gid: 2,
    groups: [3],
    stopSignal: 15,
    hostname: 'h',
    machineId: 'm',
    baseType: 'erofs',
    network: { ip: '10.0.0.1', prefix: 31, gateway: '10.0.0.0' },
    wait: false,
  })
  expect(disk.length % 4096).toBe(0)
  const lines = disk.toString().split('\0')[0]?.split('\n') ?? []
  expect(lines).toContain('env=KEY=one%0atwo=%250A')
  expect(lines).toContain('arg=100%25')
  expect(lines.filter(line => line.startsWith('dns'))).toEqual([])
})

test('a configuration that is larger than the guest can read is refused', () => {
  const env = { BIG: 'x'.repeat(1 << 20) }
  const network = { ip: '10.0.0.1', prefix: 31, gateway: '10.0.0.0' }
  const rest = { cwd: '/', uid: 0, gid: 0, groups: [], stopSignal: 15, hostname: 'h', machineId: 'm', wait: false }
  expect(() => configDisk({ argv: ['a'], env, ...rest, baseType: 'ext4', network })).toThrow(/bytes/)
})

test('an lz4 block with literals, overlapping matches and long lengths is decompressed', () => {
  const overlap = Buffer.from([0x1f, 0x61, 1, 0, 255, 10, 0x10, 0x62]) // "a" repeated 1 + 4 + 15 + 255 + 10, then "b"
  expect(lz4Block(overlap, 1024).toString()).toBe(`${'a'.repeat(285)}b`)
  expect(() => lz4Block(Buffer.from([0x10, 0x61, 9, 0, 0x00]), 64)).toThrow(/corrupt/)
})

test.skipIf(!existsSync('/bin/busybox'))('busybox can read the cpio archive (needs busybox)', async () => {
  const archive = cpio([
    { path: 'd', mode: 0o040755 },
    { path: 'd/file', mode: 0o100644, data: Buffer.from('abc') },
    { path: 'x', mode: 0o100755, data: Buffer.alloc(5) },
  ])
  const listed = execFileSync('/bin/busybox', ['cpio', '-t'], {
    input: archive,
    stdio: ['pipe', 'pipe', 'ignore'],
  }).toString()
  expect(listed.trim().split('\n')).toEqual(['d', 'd/file', 'x'])
})

test.each([
  [
    '[0.1] tsc: Detected 2596.120 MHz processor\n[1.2] tsc: Refined TSC clocksource calibration: 2596.001 MHz',
    '',
    2596001,
  ],
  ['', 'model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\ncpu MHz\t\t: 3100.5', 2200000],
  ['', 'model name\t: AMD EPYC\ncpu MHz\t\t: 2596.120\n', 2596120],
  ['', '', 2000000],
])('the TSC frequency comes from the best available source (case %#)', (messages, cpuinfo, khz) =>
  expect(tscKhzFrom(messages, cpuinfo)).toBe(khz),
)

describe('cached directories', () => {
  test('twenty callers share one build; a failed build leaves nothing and is retried', async () => {
    await using dir = await testDir()
    const path = join(dir.path, 'made')
    let builds = 0
    const failing = cachedDir(path, () => Promise.reject(new Error('no')))
    await expect(failing).rejects.toThrow('no')
    expect(await readdir(dir.path)).toEqual([])
    const build = async (target: string) => {
      builds += 1
      await writeFile(join(target, 'file'), 'x')
    }
    const paths = await Promise.all(Array.from({ length: 20 }, () => cachedDir(path, build)))
    expect(new Set(paths)).toEqual(new Set([path]))
    expect(builds).toBe(1)
    await mkdir(join(dir.path, 'other'))
    expect((await readdir(dir.path)).sort()).toEqual(['made', 'other'])
  })
})
