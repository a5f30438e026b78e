import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { testAgent, testDir } from './testing.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const child = fileURLToPath(new URL('./testing-child.ts', import.meta.url))

test.skipIf(!hasQemu)(
  'kill -9 of the agent: the VM serves on, the next agent adopts it and no log line is lost or doubled (needs qemu)',
  { timeout: 120_000 },
  async () => {
    await using dir = await testDir()
    const dataDir = join(dir.path, 'data')
    const first = spawn(process.execPath, [child, dataDir], { stdio: ['ignore', 'pipe', 'inherit'] })
    const { endpoint } = JSON.parse(await firstLine(first))
    const url = `http://${endpoint.host}:${endpoint.port}`
    first.kill('SIGKILL')
    await once(first, 'exit')
    const { pid } = await runningProcess(dataDir)
    // Nobody reads the guest's ports now: what it logs has to wait inside.
    for (const n of [1, 2, 3]) expect(await (await fetch(`${url}/?during-${n}`)).text()).toContain('Hello')

    await using host = await testAgent({ dataDir, hypervisor: 'qemu' })
    const vm = await host.until('vm-1', 'healthy', seen => seen.healthy)
    expect(vm).toMatchObject({ generation: 3, state: 'running', endpoint, restartCount: 0 })
    expect((await runningProcess(dataDir)).pid).toBe(pid)
    await fetch(`${url}/?after`)
    const requested = async () =>
      (await host.logs('vm-1')).flatMap(({ line }) => /url:\/\?([\w-]+)/.exec(line)?.[1] ?? [])
    await until(async () => (await requested()).includes('after'), { what: 'the line after the adoption' })
    expect(await requested()).toEqual(['before', 'during-1', 'during-2', 'during-3', 'after'])
  },
)

test.skipIf(!hasQemu)(
  'kill -9 in the middle of a boot: the next agent ends the stray VMM and boots anew (needs qemu)',
  { timeout: 120_000 },
  async () => {
    await using dir = await testDir()
    const dataDir = join(dir.path, 'data')
    const first = spawn(process.execPath, [child, dataDir, 'booting'], { stdio: ['ignore', 'pipe', 'inherit'] })
    await firstLine(first)
    const stray = await until(() => vmmsIn(dataDir), { what: 'a VMM', timeoutMs: 20_000 })
    first.kill('SIGKILL')
    await once(first, 'exit')
    await using host = await testAgent({ dataDir, hypervisor: 'qemu' })
    await host.until('vm-1', 'healthy', seen => seen.healthy)
    expect(existsSync(`/proc/${stray}`)).toBe(false)
    expect((await runningProcess(dataDir)).pid).not.toBe(stray)
  },
)

async function firstLine(process: ChildProcess): Promise<string> {
  if (process.stdout === null) throw new Error('no stdout')
  for await (const line of createInterface(process.stdout)) return line
  throw new Error('the child ended without a word')
}

async function runningProcess(dataDir: string): Promise<{ pid: number }> {
  return JSON.parse(await readFile(join(dataDir, 'vms/vm-1/record.json'), 'utf8')).running.process
}

async function vmmsIn(dataDir: string): Promise<number | undefined> {
  const { readdir, readlink } = await import('node:fs/promises')
  for (const name of await readdir('/proc')) {
    const cwd = await readlink(`/proc/${name}/cwd`).catch(() => '')
    const program = await readlink(`/proc/${name}/exe`).catch(() => '')
    if (cwd === join(dataDir, 'vms/vm-1') && program.includes('qemu')) return Number(name)
  }
  return undefined
}
