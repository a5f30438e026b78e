// once-is-enough: tests parsers, not the database.
/**
 * Every parser of bytes from tenants, guests, builders and registries gets the worst known input, and must never block
 * the event loop for long. A parser that is missing from the table fails the second test.
 */
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { outputLimits, readLayer, readLayout } from '../src/agent/build/output.ts'
import { planProject } from '../src/agent/build/plan/index.ts'
import { parseJsonBody } from '../src/control/http/json-body.ts'
import { parseEvent } from '../src/control/scm/events.ts'
import { readEntries } from '../src/control/vm-sessions/file-list.ts'
import { readProcesses } from '../src/control/vm-sessions/process-list.ts'
import { listenForVm, parseArrival } from '../src/agent/hypervisor/transfer/wire.ts'
import { fetchUpload } from '../src/agent/build/upload.ts'
import { framed } from '../src/agent/dns/forward.ts'
import { programsOf } from '../src/agent/guest/programs.ts'
import { frameOf, makePipes, openStdio, pipePorts } from '../src/agent/hypervisor/gvisor/pipes.ts'
import { vmmHttp } from '../src/agent/hypervisor/vmm-http.ts'
import { buildBase } from '../src/agent/image/base.ts'
import { filesBelow, runConfigOf } from '../src/agent/image/config.ts'
import { blobPath, findManifest, readBlob } from '../src/agent/image/layout.ts'
import { takeSource } from '../src/control/builds/source-archive.ts'
import { maxFileBytes } from '../src/control/apps/file-rules.ts'
import { parseAppFile } from '../src/appfile/parse.ts'
import { endOfArchive, globalHeaderBomb, paxData, rawEntry } from './support/lib/archive.ts'
import { run } from '../src/lib/exec.ts'
import { lineReader } from '../src/lib/lines.ts'
import { programsPath } from '../src/lib/vm-programs.ts'
import { asked, pour, pourMs, settled, withApp, withGuest, withResolver, withVmm } from './support/hostile-peers.ts'

let dir = ''
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-test-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

let files = 0
const place = () => join(dir, `file-${++files}`)
const placed = async (data: Buffer) => {
  const file = place()
  await writeFile(file, data)
  return file
}
const never = new AbortController().signal
const limits = { maxBytes: 512 << 20, maxEntries: 50_000 }

/** The most expensive inputs for a tar reader: an upload of 639 KB took more than a minute. */
const manyKeys = globalHeaderBomb(300_000, 2000)
const smallKeys = globalHeaderBomb(4000, 20_000)
const manyHeaders = Buffer.concat([
  ...Array.from({ length: 40_000 }, (_, n) =>
    Buffer.concat([rawEntry('x', { flag: 'x', data: paxData([['path', `d${n % 100}/f${n}`]]) }), rawEntry('f')]),
  ),
  endOfArchive,
])
const archives = [manyKeys, smallKeys, manyHeaders, Buffer.alloc(300 << 20)] as const
const packed = archives.map(data => gzipSync(data, { level: 1 }))
/** DNS names that point to each other, as deep as a message of 64 KiB allows. */
const pointers = (() => {
  const message = Buffer.alloc(65_000)
  message.writeUInt16BE(3000, 4)
  for (let at = 14; at < 16_000; at += 2) message.writeUInt16BE(0xc000 + at - 2, at)
  for (let at = 16_000; at + 6 < message.length; at += 6) message.writeUInt16BE(0xc000 + 15_998, at)
  return message
})()

/** Writes the bytes to the agent as a sandbox does, until the agent has taken them or has closed the ports. */
async function floodPipe(bytes: Buffer): Promise<void> {
  const dir = place()
  await run('mkdir', [dir])
  await makePipes(dir)
  const [input, ...others] = await openStdio(dir)
  const ports = pipePorts(dir)
  const opened = await Promise.all([ports.control(), ports.log()])
  for (const port of opened) port.on('error', () => undefined).on('data', () => undefined)
  // Closing the other handles makes the agent the only reader: a write fails once it has closed the pipe.
  const output = await open(join(dir, 'out.pipe'), 'w')
  for (const handle of others) await handle.close()
  const hello = Buffer.alloc(3 + 16)
  await input.read(hello, 0, hello.length)
  const all = Buffer.concat([Buffer.from('\0sync '), hello.subarray(3), bytes])
  const write = async () => {
    for (let at = 0; at < all.length; at += 4096) await output.write(all.subarray(at, at + 4096))
  }
  await settled(write())
  await output.close()
  await input.close()
  for (const port of opened) port.destroy()
}

async function layoutOf(layers: readonly Buffer[], config: Buffer = Buffer.from('{}')): Promise<string> {
  const layout = place()
  await run('mkdir', ['-p', join(layout, 'blobs/sha256')])
  const put = async (data: Buffer) => {
    const hex = createHash('sha256').update(data).digest('hex')
    await writeFile(join(layout, 'blobs/sha256', hex), data)
    return { digest: `sha256:${hex}`, size: data.length }
  }
  const manifest = { config: await put(config), layers: await Promise.all(layers.map(put)) }
  const entry = await put(Buffer.from(JSON.stringify(manifest)))
  await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
  return layout
}

/** JSON with maximum nesting. */
const deepJson = (bytes: number) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2)
/** JSON with as many names as possible. */
const wideJson = (bytes: number) => `{${Array.from({ length: bytes / 12 }, (_, n) => `"k${n}":1`).join()}}`

/** One migration frame with a message of the greatest size. */
const message = (json: string) => {
  const header = Buffer.alloc(5)
  header[0] = 0x4a
  header.writeUInt32BE(json.length, 1)
  return Buffer.concat([header, Buffer.from(json)])
}

const documents = [deepJson, wideJson].map(json => [json(4_000_000), json(65_000)] as const)

interface Case {
  readonly name: string
  /** The source files that the case covers. */
  readonly files: readonly string[]
  run(): Promise<unknown>
}

const cases: readonly Case[] = [
  {
    name: 'the body of a request',
    files: ['src/control/http/json-body.ts'],
    async run() {
      const mib = 1 << 20
      const pieces = ['[', '{"a":', '"a",', '"\\u0041",', '\\', '"', '1,', '[],', ' ', '"\\"",']
      const texts = [deepJson(mib), wideJson(mib), `"${'\\u0041'.repeat(mib / 6)}"`, `"${'\\'.repeat(mib)}`]
      for (const text of [...texts, ...pieces.map(piece => `[${piece.repeat(mib / piece.length)}`)])
        try {
          parseJsonBody(Buffer.from(text))
        } catch {
          // The body is refused.
        } finally {
          await turn()
        }
    },
  },
  {
    name: 'a webhook',
    files: ['src/control/scm/events.ts'],
    async run() {
      const mib = 1 << 20
      const commits = `{"commits":[${'{},'.repeat(mib / 3)}{}]}`
      for (const text of [
        deepJson(mib),
        wideJson(mib),
        `payload=${'%5B'.repeat(mib / 3)}`,
        '&a='.repeat(mib / 3),
        commits,
      ])
        for (const style of ['github', 'gitlab'] as const) {
          parseEvent({ id: 'x', event: style === 'github' ? 'push' : 'Push Hook', style }, Buffer.from(text))
          await turn()
        }
    },
  },
  {
    name: 'a list of processes in a VM',
    files: ['src/control/vm-sessions/process-list.ts'],
    async run() {
      for (const line of ['1 1 1 S 1 1 x\n', `1 1 1 S 1 1 ${'%ff'.repeat(1_300)}\n`, '\n', 'x']) {
        const part = Buffer.from(line.repeat(Math.ceil((1 << 16) / line.length)))
        await settled(readProcesses(Readable.from(Array.from({ length: 20 }, () => part))))
      }
    },
  },
  {
    name: 'the first message of a stranger at the port of a migration',
    files: ['src/agent/hypervisor/transfer/wire.ts'],
    async run() {
      for (const json of [deepJson(4_000_000), wideJson(8_000_000)]) {
        const listener = await listenForVm('127.0.0.1', 'this host')
        listener.wire.catch(() => undefined)
        const socket = connect(parseArrival(listener.uri).port, '127.0.0.1')
        socket.on('error', () => undefined).resume()
        await once(socket, 'connect')
        socket.write(message(json))
        // The host closes the connection once it has read the message.
        await settled(once(socket, 'close'))
        listener.close()
      }
    },
  },
  {
    name: 'a list of files in a VM',
    files: ['src/control/vm-sessions/file-list.ts'],
    async run() {
      for (const name of ['%ff'.repeat(4_000), 'x'.repeat(50)]) {
        const lines = Buffer.from(`f 644 1 1 /${name} \n`.repeat(Math.ceil((2 << 20) / name.length)))
        const parts = Array.from({ length: 17 }, (_, n) => lines.subarray(n << 17, (n + 1) << 17))
        await readEntries(Readable.from(parts))
      }
    },
  },
  {
    name: 'an uploaded source',
    files: ['src/control/builds/source-archive.ts', 'src/control/builds/source-rewrite.ts', 'src/lib/archive/tar.ts'],
    async run() {
      for (const data of packed) await settled(takeSource(Readable.from([data]), place(), limits, never))
    },
  },
  {
    name: 'a source for a builder',
    files: ['src/agent/build/upload.ts', 'src/agent/build/upload-read.ts'],
    async run() {
      for (const data of packed.slice(0, 3)) {
        const part = { data: data.toString('base64'), sizeBytes: data.length }
        const digest = createHash('sha256').update(data).digest('hex')
        await settled(fetchUpload(async () => part, digest, place(), { maxBytes: 1 << 30, signal: never }))
      }
    },
  },
  {
    name: 'the output of a builder',
    files: ['src/agent/build/output.ts', 'src/agent/build/output-read.ts'],
    async run() {
      for (const data of archives.slice(0, 3)) {
        const disk = await placed(data)
        await settled(readLayer(disk, place(), { ...outputLimits, signal: never }))
        await settled(readLayout(disk, place(), { ...outputLimits, signal: never }))
      }
    },
  },
  {
    name: 'the layers of an image',
    files: ['src/agent/image/base.ts', 'src/agent/image/layer-count.ts'],
    async run() {
      for (const data of packed) {
        const layout = await layoutOf([data])
        const found = await findManifest(layout, 'latest')
        const target = place()
        await run('mkdir', [target])
        const unprivileged = { program: undefined, reason: 'not of interest here' }
        const options = { maxBytes: 256 << 20, withSeed: false, form: 'disk', unprivileged } as const
        await settled(
          buildBase({ layoutDir: layout, found, digest: found.digest }, target, options, AbortSignal.timeout(20_000)),
        )
      }
    },
  },
  {
    name: 'the documents and users of an image',
    files: ['src/agent/image/layout.ts', 'src/agent/image/config.ts', 'src/agent/image/document.ts'],
    async run() {
      for (const [large, small] of documents) {
        const layout = await layoutOf([])
        const { digest } = (await findManifest(layout, 'latest')).manifest.config
        await writeFile(blobPath(layout, digest), large)
        await settled(readBlob(layout, digest))
        await writeFile(join(layout, 'index.json'), small)
        await settled(findManifest(layout, 'latest'))
      }
      const rootfs = place()
      await run('mkdir', ['-p', join(rootfs, 'etc')])
      for (const name of ['passwd', 'group']) await writeFile(join(rootfs, 'etc', name), ':\n'.repeat((1 << 19) - 1))
      await settled(runConfigOf(filesBelow(rootfs), { config: { User: 'nobody' } }))
    },
  },
  {
    name: 'the files that determine a build plan',
    files: [
      'src/agent/build/plan/index.ts',
      'src/agent/build/plan/node/frameworks.ts',
      'src/agent/build/plan/versions.ts',
    ],
    async run() {
      const texts = [deepJson(250_000), `{"scripts":${wideJson(250_000)}}`, 'web:'.repeat(60_000), '\n'.repeat(250_000)]
      const floods = [
        '"\\\\',
        '/*',
        '[ ',
        'k = x ',
        '"engines":{',
        'output: ',
        'vite ',
        ', ',
        '# ',
        'node ',
        '"packageManager":',
      ]
      const buildable = `{"scripts":{"build":"b"},"dependencies":{"vite":"1"}}`
      for (const text of [...texts, ...floods.map(one => one.repeat(250_000 / one.length))])
        for (const name of ['package.json', 'requirements.txt', 'Procfile', 'vite.config.ts', '.nvmrc', 'mise.toml'])
          try {
            const files = new Map([['package.json', buildable]])
            if (name === 'requirements.txt') files.delete('package.json')
            files.set(name, text)
            planProject({ paths: new Set([...files.keys(), 'main.py', 'Procfile']), texts: files })
          } catch {
            // The source cannot be built.
          } finally {
            await turn()
          }
    },
  },
  {
    name: 'the file of an app',
    files: ['src/appfile/parse.ts', 'src/appfile/locate.ts'],
    async run() {
      const floods = ['[', 'a.', '{', 'a={b=', '[[a]]\n', '"', "'''", '# \n', 'a = [\n', '\\u0061', ' ', 'é']
      const keys = Array.from({ length: 5000 }, (_, n) => `k${n} = 1\n`).join('')
      const tables = Array.from({ length: 4000 }, (_, n) => `[t.u${n}]\na = 1\n`).join('')
      const valid = [`${'a.'.repeat(30_000)}a = 1`, `a${' '.repeat(60_000)}= 1`, `a = "${'\\t'.repeat(30_000)}"`]
      for (const text of [...floods.map(one => one.repeat(60_000 / one.length)), keys, tables, ...valid])
        try {
          parseAppFile(text)
        } catch {
          // The file is refused.
        } finally {
          await turn()
        }
    },
  },
  {
    name: 'the file of further programs',
    files: ['src/agent/guest/programs.ts'],
    async run() {
      const program = { name: 'a', command: ['x'] }
      const most = {
        ...program,
        environment: Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`V${n}`, 'x'])),
      }
      const floods = ['[', '{"programs":[', '"\\u0061', ' ', '{"a":'].map(one => one.repeat(maxFileBytes / one.length))
      const valid = [
        { programs: Array.from({ length: 20_000 }, () => program) },
        { programs: [most] },
        { programs: Array.from({ length: 16 }, () => program) },
      ]
      for (const text of [...floods, ...valid.map(one => JSON.stringify(one))])
        try {
          const file = { path: programsPath, data: Buffer.from(text).toString('base64'), mode: 0o644 }
          programsOf([file], { argv: { entrypoint: [], cmd: [] }, env: {} })
        } catch {
          // The file is refused.
        } finally {
          await turn()
        }
    },
  },
  {
    name: 'the control port of a guest',
    files: ['src/agent/guest/channel.ts', 'src/agent/guest/pace.ts', 'src/agent/guest/exec.ts', 'src/lib/lines.ts'],
    async run() {
      const floods = ['x', '\n', 'a\n', '* halted\n', 'a-1 o %41%41\n', '* exit 1\n']
      for (const text of floods)
        await withGuest(({ control }) => pour(control, Buffer.from(text.repeat((1 << 20) / text.length)), 8))
    },
  },
  {
    name: 'the log port of a guest',
    files: ['src/agent/guest/frames.ts', 'src/agent/logs/vm-log.ts'],
    async run() {
      const floods = [
        'L 1 1 1 0\n\n',
        'L 999999999999999 1 2 0\n\n',
        `L 2 1 1 8192\n${'x'.repeat(8192)}\n`,
        'L 1 1 1 999999999999\n',
        '\n',
      ]
      for (const text of floods)
        await withGuest(async ({ log, nonce }) => {
          await pour(log, Buffer.from(`\nH ${nonce} 1 1\n`), 1)
          await pour(log, Buffer.from(text.repeat(Math.ceil((1 << 20) / text.length))), 8)
        })
      await withGuest(({ log, nonce }) => pour(log, Buffer.from(`\nH ${nonce} ${'1'.repeat(1 << 20)}`), 8))
    },
  },
  {
    name: 'the pipe of a sandbox',
    files: ['src/agent/hypervisor/gvisor/pipes.ts'],
    async run() {
      const frames = [frameOf(0, Buffer.alloc(0)), frameOf(0, Buffer.from('x')), frameOf(1, Buffer.alloc(4093))]
      const floods = [...frames, Buffer.from([9, 9, 9])]
      for (const flood of floods)
        await floodPipe(Buffer.concat(Array.from({ length: (1 << 20) / flood.length }, () => flood)))
    },
  },
  {
    name: 'QMP',
    files: ['src/agent/hypervisor/qemu/qmp.ts'],
    async run() {
      const floods = [
        `${deepJson(250_000)}\n`,
        `${wideJson(250_000)}\n`,
        'x'.repeat(1 << 20),
        '{}\n'.repeat(1 << 18),
        '{"event":"E"}\n'.repeat(1 << 16),
      ]
      for (const flood of floods)
        await withVmm(
          async (socket, text) => {
            const id = /"id":(\d+)/.exec(text)?.[1]
            if (text.includes('qmp_capabilities')) socket.write(`{"return":{},"id":${id}}\n`)
            else await pour(socket, Buffer.from(flood), 8).then(() => socket.destroy())
          },
          own => Promise.race([asked(own), sleep(2 * pourMs)]),
        )
    },
  },
  {
    name: 'the HTTP of a VMM',
    files: ['src/agent/hypervisor/vmm-http.ts'],
    async run() {
      const head = 'HTTP/1.1 200 OK\r\n'
      const [deep, wide] = [deepJson(130_000), wideJson(130_000)]
      for (const [first, then] of [
        [`${head}transfer-encoding: chunked\r\n\r\n`, `100000\r\n${'x'.repeat(1 << 20)}\r\n`],
        [`${head}transfer-encoding: chunked\r\n\r\n`, '1\r\nx\r\n'.repeat(1 << 17)],
        [`${head}content-length: ${deep.length}\r\n\r\n${deep}`, ''],
        [`${head}content-length: ${wide.length}\r\n\r\n${wide}`, ''],
        [head, 'x: y\r\n'.repeat(1 << 17)],
      ] as const)
        await withVmm(
          async socket => {
            await pour(socket, Buffer.from(first), 1)
            await pour(socket, Buffer.from(then), 8)
          },
          own => vmmHttp('a VMM', own, 'vmm.sock').call('GET', '/', undefined, { timeoutMs: 10_000 }),
        )
    },
  },
  {
    name: 'an answer to a health check',
    files: ['src/agent/vm/health.ts'],
    async run() {
      for (const text of ['HTTP/1.1 103 Early Hints\r\n\r\n', 'x: y\r\n', 'x'])
        await withApp(async socket => {
          await pour(socket, Buffer.from(text.startsWith('HTTP') ? '' : 'HTTP/1.1 200 OK\r\n'), 1)
          await pour(socket, Buffer.from(text.repeat((1 << 20) / text.length)), 8)
        })
    },
  },
  {
    name: 'queries of the resolver',
    files: ['src/agent/dns/server.ts', 'src/agent/dns/forward.ts'],
    run: () =>
      withResolver(async port => {
        for (const data of [Buffer.alloc(1 << 20), framed(pointers), Buffer.alloc(1 << 16, 0xff)]) {
          const socket = connect(port, '127.0.0.1')
          socket.on('error', () => undefined).resume()
          await once(socket, 'connect')
          await pour(socket, data, 4)
          socket.destroy()
        }
        const udp = createSocket('udp4')
        for (let n = 0; n < 2000; n++) {
          udp.send(pointers.subarray(0, 1232), port, '127.0.0.1')
          if (n % 50 === 0) await turn()
        }
        await sleep(50)
        udp.close()
      }),
  },
  {
    name: 'the output of a program',
    files: ['src/lib/exec.ts'],
    run: () =>
      run('sh', ['-c', 'yes xxxxxxxxxxxxxxxx | head -c 30000000; yes | head -c 30000000 >&2'], {
        outputBytes: 2 << 20,
        timeoutMs: 20_000,
      }),
  },
]

const longestMs = 50

/**
 * The longest uninterrupted computation of the main thread, in CPU time, so that other processes on a busy machine do
 * not count.
 */
async function stallOf(work: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let last = process.threadCpuUsage()
  const look = () => {
    const used = process.threadCpuUsage(last)
    last = process.threadCpuUsage()
    longest = Math.max(longest, (used.user + used.system) / 1000)
  }
  const timer = setInterval(look, 1)
  await work()
  await sleep(5)
  clearInterval(timer)
  return longest
}

const mostFactor = 3

/**
 * Processes on the same core also slow down computation: returns how much longer the same work takes now than
 * undisturbed.
 */
function busyFactor(): number {
  const text = `[${'{"a":[1,2,3]},'.repeat(40_000)}0]`
  const parse = () => {
    const before = process.threadCpuUsage()
    JSON.parse(text)
    const used = process.threadCpuUsage(before)
    return (used.user + used.system) / 1000
  }
  const times = Array.from({ length: 9 }, parse).toSorted((a, b) => a - b)
  return Math.min(mostFactor, Math.max(1, (times[4] ?? 1) / (times[0] ?? 1)))
}

describe('the event loop is not blocked', { timeout: 60_000 }, () => {
  it.each(cases)('by the worst of $name', async one => {
    // Other processes may delay a run, so use the best of several runs; a slow parser is slow in every run.
    let best = Number.POSITIVE_INFINITY
    let allowed = longestMs
    for (let tries = 0; tries < 3 && best > allowed; tries++) {
      best = Math.min(best, await stallOf(() => one.run()))
      allowed = Math.max(allowed, longestMs * busyFactor())
    }
    expect(best).toBeLessThan(allowed)
  })
})

describe('the table', () => {
  /**
   * These read the output of the platform's own programs and hosts, which a tenant cannot influence, or only count the
   * bytes that they pass on.
   */
  const trusted = [
    'src/agent/guest/pace.ts',
    'src/agent/hypervisor/console.ts',
    'src/agent/hypervisor/gvisor/console.ts',
    'src/agent/launcher/launcher.ts',
    'src/gateway/forward.ts',
    'src/gateway/grpc.ts',
    'src/gateway/publish/haproxy.ts',
    'src/gateway/upgrade.ts',
    'src/lib/archive/thread.ts',
  ]
  const code = (file: string) => readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
  it('contains every module that reads bytes from outside incrementally', () => {
    const marks =
      /\.on\(\s*'data'|readPaced\(|lineReader\(|tarEntries\(|inThread\(|inThread<|packet\.decode\(|frameReader\(/
    const readers = globSync('src/{agent,gateway,lib,control}/**/*.ts')
      .filter(file => !/test(ing)?(-child|-guest|-drivers)?\.ts$|testing/.test(file))
      .filter(file => marks.test(code(file)))
    const known = new Set([...cases.flatMap(one => one.files), ...trusted])
    expect(readers.filter(file => !known.has(file))).toEqual([])
    expect([...known].filter(file => readFileSync(file).length === 0)).toEqual([])
  })

  /** Why the other modules that parse or copy streams need no case. */
  const others: Readonly<Record<string, readonly string[]>> = {
    "the bytes are the platform's own, its operator's, or those of the host's tools": [
      'src/agent/build/builds.ts',
      'src/agent/disk/lvm-thin-pool.ts',
      'src/agent/disk/rbd-images.ts',
      'src/agent/disk/rbd-pool.ts',
      'src/agent/guest/shipped-kernel.ts',
      'src/agent/hypervisor/fake/driver.ts',
      'src/agent/hypervisor/fake/guest.ts',
      'src/agent/hypervisor/fake/wire.ts',
      'src/agent/hypervisor/gvisor/runsc.ts',
      'src/agent/hypervisor/identity.ts',
      'src/agent/hypervisor/qemu/snapshot.ts',
      'src/agent/mesh/device.ts',
      'src/agent/net/devices.ts',
      'src/agent/net/listing.ts',
      'src/agent/net/private-network.ts',
      'src/agent/snapshot/store.ts',
      'src/agent/state.ts',
      'src/agent/volume/store.ts',
      'src/control/auth/password-worker.ts',
      'src/control/databases/backup-target.ts',
      'src/control/databases/pageserver.ts',
      'src/control/http/route.ts',
      'src/control/http/stream-events.ts',
      'src/lib/archive/packing.ts',
    ],
    'a signature is checked before': [
      'src/control/bastion/signed.ts',
      'src/control/billing/json.ts',
      'src/control/scm/state.ts',
    ],
    'a few KiB are accepted': [
      'src/agent/mesh/prober.ts',
      'src/control/http/paging.ts',
      'src/control/http/socket.ts',
      'src/control/vm-sessions/attachment.ts',
    ],
    'another host sends them, which has shown the key of this move': [
      'src/agent/snapshot/move.ts',
      'src/agent/volume/move/content.ts',
      'src/agent/volume/move/send.ts',
    ],
    'the bytes are only counted and passed on': [
      'src/agent/hypervisor/cloud-hypervisor/protocol.ts',
      'src/agent/hypervisor/qemu/gate.ts',
      'src/agent/hypervisor/qemu/guest-memory.ts',
      'src/agent/hypervisor/qemu/relay.ts',
      'src/agent/hypervisor/qemu/state-file.ts',
      'src/agent/logs/segment.ts',
      'src/control/deployments/logs.ts',
      'src/control/http/bytes-route.ts',
      'src/control/http/upload.ts',
      'src/control/vm-sessions/file-routes.ts',
      'src/control/vm-sessions/file-session.ts',
      'src/gateway/bastion/bastion.ts',
      'src/gateway/bastion/shell-stream.ts',
      'src/lib/guarded-proxy.ts',
    ],
    'a case names the module that calls it': [
      'src/agent/build/compose.ts',
      'src/agent/build/plan/node/locks.ts',
      'src/agent/build/plan/project.ts',
      'src/agent/guest/ports.ts',
      'src/agent/image/document-thread.ts',
      'src/agent/image/registry.ts',
      'src/agent/image/write-layout.ts',
      'src/control/databases/backups.ts',
      'src/control/deployments/list-store.ts',
    ],
  }
  it('or the list of reasons has every module that parses, or copies a stream', () => {
    const marks =
      /for await \(|pipeline\(|\.pipe\(|\.on\(\s*'(?:message|readable)'|new Transform|JSON\.parse\(|createGunzip/
    const found = globSync('src/{agent,gateway,lib,control}/**/*.ts')
      .filter(file => !/test(ing)?(-child|-guest|-drivers)?\.ts$|testing/.test(file))
      .filter(file => marks.test(code(file)))
    const known = new Set([...cases.flatMap(one => one.files), ...trusted, ...Object.values(others).flat()])
    expect(found.filter(file => !known.has(file))).toEqual([])
    const gone = Object.values(others)
      .flat()
      .filter(file => !found.includes(file))
    expect(gone).toEqual([])
  })

  it('is backed by a reader that scans each byte once', () => {
    const part = Buffer.from('x')
    const read = lineReader(
      1 << 20,
      () => undefined,
      () => undefined,
    )
    for (let n = 0; n < 100_000; n++) read(part)
    expect(read(Buffer.from('\n'))).toBe(1)
  })
})
