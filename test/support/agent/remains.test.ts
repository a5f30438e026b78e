/** Processes and files of agents of a killed test run are removed, but not those of test runs that still run. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it } from 'vitest'
import { run } from '../../../src/lib/exec.ts'
import { identifyProcess, isRunning } from '../../../src/lib/process-identity.ts'
import { testDir } from './agent.ts'
import { removeAbandoned, removeRemains } from './remains.ts'

const remains = JSON.stringify(new URL('./remains.ts', import.meta.url).href)

/**
 * Starts a process that owns an agent's directory, and that starts a process which looks like a sandbox of the agent.
 */
async function owner(stack: AsyncDisposableStack) {
  const dir = await mkdtemp(join(tmpdir(), 'mote-agent-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  await mkdir(join(dir, 'vms', 'vm-1', 'volumes'), { recursive: true })
  const program = `
    import { own } from ${remains}
    import { spawn } from 'node:child_process'
    own(${JSON.stringify(dir)})
    const line = 'setInterval(() => undefined, 1000)'
    const args = ['--eval', line, '--', ${JSON.stringify(`--root=${dir}/runsc`)}]
    const one = spawn(process.execPath, args, { argv0: 'runsc-sandbox', detached: true, stdio: 'ignore' })
    console.log(one.pid)
    setInterval(() => undefined, 1000)`
  const test = spawn(process.execPath, ['--input-type=module-typescript', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  stack.defer(() => void test.kill('SIGKILL'))
  const [line] = await once(createInterface({ input: test.stdout }), 'line')
  const vm = identifyProcess(Number(line))
  if (vm === undefined) throw new Error('BUG: the process that stands for a sandbox has ended')
  stack.defer(() => {
    if (isRunning(vm)) process.kill(vm.pid, 'SIGKILL')
  })
  return { dir, test, vm }
}

it("after a test process was killed, its agents' processes and directories are removed, but no others", async () => {
  await using stack = new AsyncDisposableStack()
  const [killed, living] = [await owner(stack), await owner(stack)]
  const ended = once(killed.test, 'exit')
  killed.test.kill('SIGKILL')
  await ended
  // Ignore the returned directories, because another test run may remove them at the same time.
  await removeAbandoned()
  expect([isRunning(killed.vm), existsSync(killed.dir)]).toEqual([false, false])
  expect([isRunning(living.vm), existsSync(living.dir)]).toEqual([true, true])
})

it.skipIf(process.getuid?.() !== 0)("mounts in an agent's directory are removed with it (needs root)", async () => {
  const dir = await testDir()
  await using stack = new AsyncDisposableStack()
  stack.use(dir)
  const [source, at] = [join(dir.path, 'source'), join(dir.path, 'vms/vm-1/volumes')]
  for (const one of [source, at]) await mkdir(one, { recursive: true })
  await writeFile(join(source, 'file'), '')
  await run('mount', ['--bind', source, at])
  expect(await removeRemains(dir.path)).toBe(true)
  expect(existsSync(dir.path)).toBe(false)
  expect(await removeRemains(dir.path)).toBe(false)
})

it('removing a directory that no test created for an agent is refused', async () => {
  for (const dir of ['/', tmpdir(), '/var/lib', '/tmp/mote-x/y'])
    await expect(removeRemains(dir)).rejects.toThrow('no directory of a test')
})
