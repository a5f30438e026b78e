/**
 * Measures the rate at which a client receives the stored log of a VM, compared with the same bytes from a bare Node
 * server.
 */
import { createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { logsAnswer, type StoredLine } from '../src/agent/logs/line.ts'
import { subjects, type VmLogsRequest } from '../src/contract/agent.ts'
import { startBenchApi } from './api.ts'
import { type Benchmark, median } from './benchmark.ts'
import { seedApps, seedServing } from './seed.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 15
/**
 * Number of log lines: the most that a client may request. The host needs three responses for them, because a message
 * on the bus is limited to 1 MiB.
 */
const lines = 10_000
const lineBytes = 200
const startUs = 1_700_000_000_000_000
const chunkBytes = 64 * 1024

/** Returns the MiB per second until the last log line has arrived, and all received bytes. */
async function read(
  url: string,
  token: string,
  last: string,
): Promise<{ readonly mibPerSecond: number; readonly bytes: Buffer }> {
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const asked = get(url, { headers: { authorization: `Bearer ${token}` }, agent: false }, response => {
      const chunks: Buffer[] = []
      let size = 0
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        size += chunk.length
        if (!chunk.includes(last)) return
        resolve({ mibPerSecond: size / 2 ** 20 / ((performance.now() - began) / 1000), bytes: Buffer.concat(chunks) })
        asked.destroy()
      })
    })
    asked.on('error', reject)
  })
}

export const logs: Benchmark = {
  name: 'logs',
  goal: 'the stored log of a VM reaches the client at half the rate of the same bytes from bare Node, or 200 MiB/s',
  covers: ['B22'],
  how: `GET .../logs/stream?tail=${lines}: the host answers ${lines} lines of ${lineBytes} bytes over the bus in the format of the stream; the control plane forwards them. This alternates with a bare Node server that writes the same bytes from memory in chunks of 64 KiB.`,
  reading:
    'A log event contains its time, stream, VM and deployment. The host serializes each line once, and no other program parses it. In this single process the host, the control plane and the client share a core, while bare Node copies memory. Before 2026-11-21, 19:00, every line was an object on the bus, and the rate was 78 MiB/s under the same load.',
  async run(report) {
    await using api = await startBenchApi()
    await using cleanup = new AsyncDisposableStack()
    const sql = new pg.Client({ connectionString: api.databaseUrl })
    await sql.connect()
    cleanup.defer(() => sql.end())
    const { rows } = await sql.query<{ id: string }>('SELECT id FROM project')
    await seedApps(sql, rows[0]?.id ?? '', 1, 'app')
    const [vm] = await seedServing(sql, 'app', 1)
    const kept: StoredLine[] = Array.from({ length: lines }, (_, n) => ({
      atUs: startUs + n,
      stream: 'stdout',
      boot: 1,
      seq: n,
      line: `${n === lines - 1 ? 'the-last-line' : `line ${n}`} ${'x'.repeat(lineBytes)}`.slice(0, lineBytes),
    }))
    await api.bus.serve(subjects.hostIn(vm?.hostId ?? '', 'vm.logs'), data => {
      const request = data as VmLogsRequest
      return logsAnswer(request, request.afterUs === 0 ? kept : kept.slice(request.afterUs - startUs + 1))
    })
    await api.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = api.app.server.address() as AddressInfo
    const url = `http://127.0.0.1:${port}/v1/apps/app-1/logs/stream?tail=${lines}`
    const { bytes } = await read(url, api.jwt, 'the-last-line')
    const bare = createServer((_request, response) => {
      for (let at = 0; at < bytes.length; at += chunkBytes) response.write(bytes.subarray(at, at + chunkBytes))
    })
    await new Promise<void>(resolve => bare.listen(0, '127.0.0.1', resolve))
    cleanup.defer(() => void bare.close())
    const bareUrl = `http://127.0.0.1:${(bare.address() as AddressInfo).port}/`
    const found = await inTurns(rounds, {
      product: async () => (await read(url, api.jwt, 'the-last-line')).mibPerSecond,
      bare: async () => (await read(bareUrl, api.jwt, 'the-last-line')).mibPerSecond,
    })
    report.samples('log of a VM', 'MiB/s', found.product)
    report.samples('bare Node, same bytes', 'MiB/s', found.bare)
    const share = ratioOfRounds(found.product, found.bare)
    const rate = median(found.product)
    report.atLeast(
      `rate of the log / its goal, the better of two: ${share.toFixed(2)} of bare Node (goal 0.5), and ${rate.toFixed(0)} MiB/s (goal 200)`,
      Math.max(share / 0.5, rate / 200),
      1,
    )
  },
}
