import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { until } from './wait.ts'

const gone = (pid: number) => {
  try {
    process.kill(pid, 0)
    return false
  } catch {
    return true
  }
}

test('processes and directories of a killed test run are removed', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'mote-reaper-'))
  // A test run that starts a server and registers it with the reaper. It is killed below.
  const program = `
    import { startReaper } from ${JSON.stringify(new URL('./reaper.ts', import.meta.url).href)}
    import { spawn } from 'node:child_process'
    const server = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' })
    const reaper = startReaper()
    reaper.killAtEnd(server.pid)
    reaper.removeAtEnd(${JSON.stringify(directory)})
    console.log(server.pid)
    setInterval(() => {}, 1000)`
  const run = spawn(process.execPath, ['--input-type=module-typescript', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(createInterface({ input: run.stdout }), 'line')
  const server = Number(line)
  expect(gone(server)).toBe(false)
  run.kill('SIGKILL')
  await until(() => gone(server), { what: 'the server to be killed' })
  await until(
    () =>
      stat(directory).then(
        () => false,
        () => true,
      ),
    { what: 'the directory to be removed' },
  )
})

test('an otherwise idle process waits until the reaper has cleaned up', async () => {
  const program = `
    import { startReaper } from ${JSON.stringify(new URL('./reaper.ts', import.meta.url).href)}
    await startReaper().finish()
    console.log('cleaned up')`
  const run = spawn(process.execPath, ['--input-type=module-typescript', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(createInterface({ input: run.stdout }), 'line')
  expect(line).toBe('cleaned up')
})
