import { describe, expect, it } from 'vitest'
import { promisedMs } from '../../../test/support/wait.ts'
import { readProcesses } from './process-list.ts'

async function* parts(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text)
}

describe('the list of processes in a VM', () => {
  it('is parsed even if it is split into chunks, and commands may contain any bytes', async () => {
    expect(await readProcesses(parts('1 0 0 S 20 10', '24 init\n7 1 1000 R 5 1 a%20%c3%a9%0a\n'))).toEqual([
      { pid: 1, parent_pid: 0, user_id: 0, state: 'S', cpu_ms: 20, memory_kib: 1024, command: 'init' },
      { pid: 7, parent_pid: 1, user_id: 1000, state: 'R', cpu_ms: 5, memory_kib: 1, command: 'a é\n' },
    ])
  })

  it.each(['nonsense\n', '1 0 0 S 20\n', '-1 0 0 S 20 1 x\n', `${'1'.repeat(5000)}`])('refuses %j', async text => {
    await expect(readProcesses(parts(text))).rejects.toThrow('invalid process list')
  })

  it('is truncated after 2,000 processes, and parsing a chunk of it does not block the event loop', async () => {
    const many = Array.from({ length: 5_000 }, (_, n) => `${n + 1} 1 0 S 1 1 ${'x'.repeat(500)}\n`).join('')
    let longestMs = 0
    // Session output arrives in chunks of at most 64 KiB.
    async function* arriving() {
      for (let at = 0; at < many.length; at += 1 << 16) {
        const began = performance.now()
        yield Buffer.from(many.slice(at, at + (1 << 16)))
        longestMs = Math.max(longestMs, performance.now() - began)
      }
    }
    expect((await readProcesses(arriving())).length).toBe(2_000)
    expect(longestMs).toBeLessThan(promisedMs(50))
  })
})
