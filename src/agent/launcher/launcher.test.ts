import { mkdir, readFile, readlink, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { CommandError } from '../../lib/exec.ts'
import { agentConfig } from '../base/config.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { type Launcher, noLauncher, openLauncher } from './launcher.ts'
import { answersOf, requestBytes } from './wire.ts'

const { cacheDir } = agentConfig({ dataDir: '/nowhere', hostName: 'test' })
const launcher = await openLauncher(cacheDir)
afterAll(() => launcher.close())

const both: ReadonlyArray<readonly [string, Launcher]> = [
  ['run by the launcher', launcher],
  ['run without a launcher', noLauncher],
]

describe.each(both)('a command %s', (_, { run }) => {
  test('reads its input and returns its output', async () => {
    expect(await run('cat', [], { input: 'what is said\n'.repeat(20_000) })).toBe('what is said\n'.repeat(20_000))
    expect(await run('printf', ['%s.', 'a b', '', '*'])).toBe('a b..*.')
  })

  test("has the agent's HOME and the locale C in its environment", async () =>
    expect(await run('sh', ['-c', 'echo $LC_ALL $HOME'])).toBe(`C ${process.env.HOME}\n`))

  test('that fails reports its exit code and its error output', async () => {
    const failed = run('sh', ['-c', 'echo gone wrong >&2; exit 3'])
    await expect(failed).rejects.toMatchObject({ exitCode: 3, stderr: 'gone wrong\n' })
    await expect(failed).rejects.toBeInstanceOf(CommandError)
    await expect(run('sh', ['-c', 'kill -9 $$'])).rejects.toMatchObject({ exitCode: null })
  })

  test('that is not installed fails with ENOENT', () =>
    expect(run('no-such-program', [])).rejects.toMatchObject({ code: 'ENOENT' }))

  test('does not wait until other commands have exited', async () => {
    await using dir = await testDir()
    const pipe = join(dir.path, 'pipe')
    await run('mkfifo', [pipe])
    // `cat` exits only after the test has written to the pipe, which it does after the other commands.
    const first = run('cat', [pipe])
    await Promise.all(Array.from({ length: 20 }, (_, n) => run('echo', [String(n)])))
    await writeFile(pipe, 'done')
    expect(await first).toBe('done')
  })
})

/** Starts a shell script that outlives the agent. */
const lasting = (dir: string, script: string) =>
  launcher.start?.({ program: 'sh', args: ['-c', script], cwd: dir, env: {}, errorFile: join(dir, 'errors') })

const groupName = `mote-test-launcher-${process.pid}`
const group = `/sys/fs/cgroup/unified/${groupName}`
const made = await mkdir(group, { recursive: true }).then(
  () => true,
  () => false,
)

describe('a program that outlives the agent', () => {
  test('starts in the given directory and in its own session, and its exit is reported', async () => {
    await using dir = await testDir()
    const started = await lasting(dir.path, 'echo here >&2; exec sleep 60')
    expect(await readlink(`/proc/${started?.pid}/cwd`)).toBe(dir.path)
    const session = async () => (await readFile(`/proc/${started?.pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[3]
    expect(await session()).toBe(String(started?.pid))
    await until(async () => (await readFile(join(dir.path, 'errors'), 'utf8')) === 'here\n', { what: 'its words' })
    process.kill(started?.pid ?? 0, 'SIGKILL')
    expect(await started?.ended).toBe('SIGKILL')
  })

  test('that cannot be started is reported with an error code', async () => {
    await using dir = await testDir()
    const errorFile = join(dir.path, 'errors')
    const start = (program: string, cwd: string) =>
      launcher.start?.({ program, args: [], cwd, env: {}, errorFile }) ?? Promise.resolve()
    await expect(start('no-such-program', dir.path)).rejects.toMatchObject({ code: 'ENOENT' })
    await expect(start('true', join(dir.path, 'no such directory'))).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('reads and writes named pipes, and has a separate file for its error output', async () => {
    await using dir = await testDir()
    const [stdin, stdout, errorFile] = ['in', 'out', 'errors'].map(name => join(dir.path, name)) as [
      string,
      string,
      string,
    ]
    await launcher.run('mkfifo', [stdin, stdout])
    const started = await launcher.start?.({
      program: 'sh',
      // The kernel discards a pipe's content when the pipe's last descriptor is closed, so the program must run until
      // its output is read.
      args: ['-c', 'read line; echo "$line?"; echo bad >&2; read line'],
      cwd: dir.path,
      env: {},
      stdin,
      stdout,
      errorFile,
    })
    await writeFile(stdin, 'said\n')
    const heard = await launcher.run('head', ['-n', '1', stdout])
    expect(heard).toBe('said?\n')
    await writeFile(stdin, 'end\n')
    expect(await started?.ended).toBe(0)
    expect(await readFile(errorFile, 'utf8')).toBe('bad\n')
  })

  test('keeps running when the launcher exits', async () => {
    await using dir = await testDir()
    const other = await openLauncher(cacheDir)
    const errorFile = join(dir.path, 'errors')
    const started = await other.start?.({ program: 'sleep', args: ['60'], cwd: dir.path, env: {}, errorFile })
    other.close()
    await expect(started?.ended).rejects.toThrow('the program launcher')
    expect(await readlink(`/proc/${started?.pid}/cwd`)).toBe(dir.path)
    process.kill(started?.pid ?? 0, 'SIGKILL')
  })

  test.skipIf(!made)(
    `starts in the given cgroup ${made ? '' : '(skipped: no cgroup2 at /sys/fs/cgroup/unified)'}`,
    async () => {
      await using dir = await testDir()
      const errorFile = join(dir.path, 'errors')
      const started = await launcher.start?.({
        program: 'sleep',
        args: ['60'],
        cwd: dir.path,
        env: {},
        errorFile,
        cgroup: group,
      })
      const cgroups = await readFile(`/proc/${started?.pid}/cgroup`, 'utf8')
      process.kill(started?.pid ?? 0, 'SIGKILL')
      await started?.ended
      await rmdir(group)
      // In a container, the path of a cgroup starts with the container's own cgroup.
      expect(cgroups).toMatch(new RegExp(`^0::(?:/.*)?/${groupName}$`, 'm'))
    },
  )
})

test('a launcher that was killed is started again by the next command', async () => {
  const other = await openLauncher(cacheDir)
  const parent = Number(await other.run('sh', ['-c', 'echo $PPID']))
  const under = other.run('sleep', ['60'])
  process.kill(parent, 'SIGKILL')
  await expect(under).rejects.toThrow('the program launcher')
  expect(Number(await other.run('sh', ['-c', 'echo $PPID']))).not.toBe(parent)
  other.close()
})

test("a program's argument that contains a zero byte is refused", () =>
  expect(() => requestBytes({ id: 1, argv: ['a\0b'], env: {}, input: '' })).toThrow('zero byte'))

test('answers of the launcher are parsed from partial chunks', () => {
  const observed: unknown[] = []
  const take = answersOf(answer => observed.push(answer))
  const bytes = Buffer.alloc(42)
  for (const at of [0, 21]) {
    bytes.writeUInt32LE(17, at)
    bytes.writeUInt32LE(at + 1, at + 4)
    bytes.write('S', at + 8)
    bytes.writeInt32LE(77, at + 9)
  }
  for (const byte of bytes) take(Buffer.from([byte]))
  expect(observed).toEqual([
    { is: 'started', id: 1, pid: 77 },
    { is: 'started', id: 22, pid: 77 },
  ])
})
