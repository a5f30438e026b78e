import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { run } from './exec.ts'
import { identifyProcess, isRunning } from './process-identity.ts'
import { hasProgram } from './programs.ts'

test('a process counts as running until it exits, and another one with the same pid does not', async () => {
  const child = spawn('sleep', ['60'])
  const identity = identifyProcess(child.pid ?? 0)
  if (!identity) throw new Error('it runs')
  expect(isRunning(identity)).toBe(true)
  expect(isRunning({ ...identity, startTicks: identity.startTicks + 1 })).toBe(false)
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(isRunning(identity)).toBe(false)
})

/** A program whose first thread exits at once. Its other thread runs until the test closes its input. */
const source = `#include <pthread.h>
#include <unistd.h>
static void *rest(void *unused) { char byte; read(0, &byte, 1); return unused; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, rest, 0);
  pthread_exit(0);
}
`

const hasCompiler = await hasProgram('cc')

test.skipIf(!hasCompiler)(
  `a process whose first thread is a zombie counts as running until its last thread exits ${hasCompiler ? '' : 'skipped, missing: cc'}`,
  async () => {
    const dir = await mkdtemp(join(tmpdir(), 'mote-threads-'))
    try {
      await writeFile(join(dir, 'threads.c'), source)
      await run('cc', ['-pthread', '-o', join(dir, 'threads'), join(dir, 'threads.c')], { timeoutMs: 60_000 })
      const child = spawn(join(dir, 'threads'), { stdio: ['pipe', 'ignore', 'inherit'] })
      const isZombie = () => /\) Z /.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8'))
      await until(isZombie, { what: 'its first thread has ended' })
      const identity = identifyProcess(child.pid ?? 0)
      expect(identity).toBeDefined()
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
      expect(identity && isRunning(identity)).toBe(false)
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  },
)
