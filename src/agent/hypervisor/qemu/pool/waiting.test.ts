import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { until } from '../../../../../test/support/wait.ts'
import { run } from '../../../../lib/exec.ts'
import { identifyProcess, isRunning } from '../../../../lib/process-identity.ts'
import { agentConfig } from '../../../config.ts'
import { openLauncher } from '../../../launcher/launcher.ts'
import { testDir } from '../../../../../test/support/agent/agent.ts'
import { buildNetless, tapFd } from '../../netless.ts'
import { endProcess } from '../../process.ts'
import { devicesOf } from '../../../../../test/support/agent/hypervisor-tap.ts'
import { connectQmp } from '../qmp.ts'
import { qemuBinary } from '../spawn.ts'
import { startWaiting } from './waiting.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const root = process.getuid?.() === 0
const { cacheDir } = agentConfig({ dataDir: '/nowhere', hostName: 'test' })
const launcher = await openLauncher(cacheDir)
afterAll(() => launcher.close())

/** A machine with nothing in it. */
const runningVm = ['-M', 'microvm', '-m', '128', '-nodefaults', '-display', 'none']
const monitor = ['-qmp', 'unix:qmp.sock,server=on,wait=off']

async function waiting(change: { readonly program?: string; readonly apart?: boolean } = {}) {
  const dir = await testDir()
  const [own, vm] = [join(dir.path, 'waiting'), join(dir.path, 'vm')]
  await Promise.all([mkdir(own), mkdir(vm)])
  const start = { program: qemuBinary, launcher, cacheDir, dir: own, apart: false, ...change }
  const begin = () => startWaiting(start, AbortSignal.timeout(20_000))
  return { dir: dir.path, own, vm, begin, [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() }
}

const of = (pid: number, file: string) => readFile(`/proc/${pid}/${file}`, 'utf8')
const argumentsOf = async (pid: number) => (await of(pid, 'cmdline')).split('\0').slice(0, -1)
const openFiles = async (pid: number) =>
  (
    await Promise.all((await readdir(`/proc/${pid}/fd`)).map(fd => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')))
  ).toSorted()

test.skipIf(!hasQemu)(
  'it becomes the VM that it is told, and looks as if it had been started so (needs qemu)',
  async () => {
    await using all = await waiting()
    const one = await all.begin()
    const { pid } = one.identity
    expect(await argumentsOf(pid)).toEqual([qemuBinary, 'waits for a VM'])
    expect(await of(pid, 'comm')).toBe('mote-waits\n')
    expect(await readlink(`/proc/${pid}/cwd`)).toBe('/')
    expect(await readdir(all.own)).toEqual(['vmm.err'])

    const args = [...runningVm, ...monitor]
    const vmm = await one.become({ dir: all.vm, args, env: { ...process.env, MOTE_TEST: 'a value' } })
    try {
      const qmp = await until(() => connectQmp(all.vm, 'qmp.sock'), { what: 'its monitor' })
      expect(await qmp.execute('query-status')).toMatchObject({ status: 'running' })
      qmp.close()
      expect(vmm.identity).toEqual(one.identity)
      expect(identifyProcess(pid)).toEqual(vmm.identity)
      expect(await argumentsOf(pid)).toEqual([qemuBinary, ...args])
      expect(await of(pid, 'environ')).toContain('MOTE_TEST=a value\0')
      expect(await of(pid, 'environ')).not.toContain('MOTE_WAITS_AT')
      expect(await of(pid, 'comm')).toBe('qemu-system-x86\n')
      expect(await readlink(`/proc/${pid}/cwd`)).toBe(all.vm)

      const beside = join(all.dir, 'beside')
      await mkdir(beside)
      const fresh = await launcher.start?.({
        program: qemuBinary,
        args,
        cwd: beside,
        env: process.env,
        errorFile: join(beside, 'vmm.err'),
      })
      const other = await until(() => connectQmp(beside, 'qmp.sock'), { what: 'the monitor of a started one' })
      other.close()
      const kinds = async (of: number) =>
        (await openFiles(of)).map(file => file.replace(/\d+/g, '').replace(/\/(vm|beside)\//, '/'))
      const rights = /^(Name|Umask|[UG]id|Groups|NoNewPrivs|Seccomp\w*|Cap\w+|SigBlk|SigIgn|Cpus_allowed_list):.*$/gm
      const status = async (of: number) => (await readFile(`/proc/${of}/status`, 'utf8')).match(rights)
      try {
        await until(async () => (await kinds(pid)).join() === (await kinds(fresh?.pid ?? 0)).join(), {
          what: 'the same files open',
        })
        expect(await status(pid)).toEqual(await status(fresh?.pid ?? 0))
        expect(await status(pid)).toContainEqual(expect.stringMatching(/^CapEff:/))
      } finally {
        process.kill(fresh?.pid ?? 0, 'SIGKILL')
        await fresh?.ended
      }
    } finally {
      await endProcess({ process: vmm.identity })
    }
    await expect(vmm.ended).rejects.toThrow('QEMU ended (SIGKILL)')
  },
)

test.skipIf(!hasQemu)("what the VM's QEMU says of its end is told (needs qemu)", async () => {
  await using all = await waiting()
  const vmm = await (await all.begin()).become({ dir: all.vm, args: ['-no-such-option'], env: process.env })
  await expect(vmm.ended).rejects.toThrow('-no-such-option: invalid option')
})

test.skipIf(!hasQemu)('what it cannot take is an error, and no process stays (needs qemu)', async () => {
  await using all = await waiting({ apart: root })
  for (const [bad, says] of [
    [{ dir: join(all.dir, 'nowhere') }, 'errno 2'],
    ...(root ? [[{ tap: 'mt-missing' }, 'errno 19'] as const] : []),
  ] as const) {
    const one = await all.begin()
    await expect(one.become({ dir: all.vm, args: runningVm, env: {}, ...bad })).rejects.toThrow(says)
    expect(isRunning(one.identity)).toBe(false)
  }
  const stopped = await all.begin()
  process.kill(stopped.identity.pid, 'SIGSTOP')
  await expect(stopped.become({ dir: all.vm, args: runningVm, env: {} })).rejects.toThrow('timeout')
  expect(isRunning(stopped.identity)).toBe(false)
  const dead = await all.begin()
  process.kill(dead.identity.pid, 'SIGKILL')
  await expect(dead.become({ dir: all.vm, args: runningVm, env: {} })).rejects.toThrow()
  await expect(dead.ended).rejects.toThrow('a waiting QEMU ended (SIGKILL)')
})

test('a program that takes no preloaded library is given up at once', async () => {
  await using all = await waiting({ program: await buildNetless(cacheDir) })
  await expect(all.begin()).rejects.toThrow('a waiting QEMU ended (127): usage: netless')
})

test.skipIf(!hasQemu || !root)('a tap of the host is all that it has of a network (needs qemu and root)', async () => {
  await using all = await waiting({ apart: true })
  const tap = `mt${process.pid.toString(36)}w`
  const user = 1_900_000_001
  const one = await all.begin()
  expect(await devicesOf(one.identity.pid)).toMatchObject([{ ifname: 'lo', operstate: 'DOWN', addr_info: [] }])
  await run('ip', ['tuntap', 'add', 'dev', tap, 'mode', 'tap', 'user', String(user)])
  try {
    const args = [
      ...runningVm,
      ...monitor,
      '-netdev',
      `tap,id=n0,fd=${tapFd}`,
      '-device',
      'virtio-net-device,netdev=n0',
    ]
    const vmm = await one.become({ dir: all.vm, args, env: process.env, tap })
    try {
      ;(await until(() => connectQmp(all.vm, 'qmp.sock'), { what: 'its monitor' })).close()
      await run('ip', ['link', 'set', 'dev', tap, 'up'])
      await until(async () => (await readFile(`/sys/class/net/${tap}/carrier`, 'utf8')) === '1\n', {
        what: 'its carrier',
      })
      expect(await devicesOf(one.identity.pid)).toHaveLength(1)
      expect(await openFiles(one.identity.pid)).toContain('/dev/net/tun')
    } finally {
      await endProcess({ process: vmm.identity })
    }
  } finally {
    await run('ip', ['link', 'del', 'dev', tap])
  }
})
