import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, symlink, truncate, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import type { VmObserved, VmSpec } from '../../contract/agent.ts'
import { CommandError, run } from '../../lib/exec.ts'
import { agentConfig } from '../base/config.ts'
import { createDrivers } from '../drivers.ts'
import { writeSampleImage } from '../image/sample.ts'
import { noLauncher, type RunCommand } from '../launcher/launcher.ts'
import { userNetwork } from '../net/user.ts'
import { type TestAgent, testAgent, testDir, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'
import { openTemplates } from './qemu/templates.ts'
import { bring, homeIn, watcher } from '../../../test/support/agent/hypervisor-drivers.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const limit = { timeout: 180_000 }
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const qemu = { hypervisor: 'qemu', network } as const

const desired = (vmId: string, change: Partial<VmSpec> = {}, generation = 1) => ({
  vmId,
  generation,
  want: 'running' as const,
  spec: testSpec({ hostname: vmId, ...change }),
})
const healthy = (host: TestAgent, vmId: string) => host.until(vmId, 'healthy', vm => vm.healthy)
const shell = async (host: TestAgent, vmId: string, script: string) =>
  (await host.exec(vmId, ['sh', '-c', script])).stdout
const steps = (vm: VmObserved) => vm.steps.map(step => step.name)

/** Creates a cache directory with its own templates. Its other entries are links to the cache that all tests share. */
async function ownCache() {
  const dir = await testDir()
  const shared = join(homedir(), '.cache', 'mote')
  for (const part of ['.', 'init', 'bases', 'scratch']) {
    await mkdir(join(dir.path, part), { recursive: true })
    for (const name of await readdir(join(shared, part)).catch(() => []))
      if (part !== '.' ? !name.includes('.partial') : name === 'kernel')
        await symlink(join(shared, part, name), join(dir.path, part, name))
  }
  const templates = () => readdir(join(dir.path, 'templates')).catch(() => [])
  return {
    path: dir.path,
    templates,
    written: async () => {
      const complete = async () => (await templates()).find(name => !name.endsWith('.partial'))
      return join(dir.path, 'templates', await until(complete, { what: 'the template' }))
    },
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  }
}

test.skipIf(!hasQemu)(
  'the second VM of an image starts from the template of the first VM, and has its own identity (needs qemu)',
  limit,
  async () => {
    await using cache = await ownCache()
    await using host = await testAgent({ ...qemu, cacheDir: cache.path })
    await host.put(desired('vm-1', { env: { WHO: 'vm-1' } }))
    expect(steps(await healthy(host, 'vm-1'))).toContain('template')
    await cache.written()
    // Only partly in `npm test`: two VMs that start at once cover the third, because all start from the same template.
    const clones = ['vm-2', 'vm-3', 'vm-4'].slice(0, runsAll ? 3 : 2)
    await Promise.all(clones.map(vmId => host.put(desired(vmId, { env: { WHO: vmId, MORE: 'x'.repeat(100_000) } }))))
    const observed = await Promise.all(clones.map(vmId => healthy(host, vmId)))
    for (const vm of observed) {
      expect(steps(vm)).toContain('load')
      const page = await fetch(`http://${vm.endpoint?.host}:${vm.endpoint?.port}/`)
      expect(await page.text()).toContain(`Hello from ${vm.vmId}`)
    }
    const own = [
      ...['hostname', 'echo $WHO', 'cat /etc/machine-id', 'cat /sys/class/net/eth0/address'],
      ...['cat /proc/sys/kernel/random/boot_id', 'cat /proc/sys/kernel/random/uuid'],
      ...['head -c 16 /dev/urandom | od -An -tx1', 'ip addr show eth0 | grep "inet6 fe80"'],
    ]
    // The guest assigns its link-local address a moment after its network interface is up.
    for (const vmId of clones)
      await until(async () => (await shell(host, vmId, 'ip addr show eth0')).includes('inet6 fe80'), {
        what: `the link-local address of ${vmId}`,
      })
    const all = await Promise.all(['vm-1', ...clones].map(vmId => shell(host, vmId, own.join(';'))))
    for (const [column, what] of own.entries())
      expect(new Set(all.map(text => text.split('\n')[column])).size, `${what}: ${all.join('\n')}`).toBe(all.length)
    if (network === 'tap') expect(new Set(observed.map(vm => vm.endpoint?.host)).size).toBe(clones.length)
    expect(Math.abs(Number(await shell(host, 'vm-2', 'date +%s')) - Date.now() / 1000)).toBeLessThan(3)
    expect((await shell(host, 'vm-2', 'echo $MORE')).length).toBe(100_001)

    // The snapshot of vm-2 contains the template's memory with the changes of vm-2. Clones of vm-2 map the snapshot's
    // memory.
    await shell(host, 'vm-2', 'echo mine > /dev/shm/state; dd if=/dev/urandom of=/dev/shm/big bs=1M count=8')
    const sum = await shell(host, 'vm-2', 'md5sum < /dev/shm/big')
    expect(await host.snapshot('snap-1', 'vm-2')).toMatchObject({ state: 'ready' })
    expect(await readdir(join(host.config.dataDir, 'snapshots/snap-1/files'))).toContain('memory')
    await host.put(desired('clone', { from: { snapshotId: 'snap-1', renew: true } }))
    await healthy(host, 'clone')
    expect(await shell(host, 'clone', 'cat /dev/shm/state; md5sum < /dev/shm/big')).toBe(`mine\n${sum}`)
  },
)

// Not in `npm test`: the test of eviction covers that a template is removed once it is distrusted.
test.skipIf(!hasQemu || !runsAll)(
  'a VM boots even if its template is damaged or of another kind (needs qemu)',
  limit,
  async () => {
    await using cache = await ownCache()
    await using host = await testAgent({ ...qemu, cacheDir: cache.path })
    await host.put(desired('vm-1'))
    await healthy(host, 'vm-1')
    const template = await cache.written()
    await host.put(desired('larger', { memoryMib: 160 }))
    expect(steps(await healthy(host, 'larger'))).not.toContain('load')

    await chmod(join(template, 'state'), 0o600)
    await truncate(join(template, 'state'), 5_000)
    await host.put(desired('vm-2'))
    expect(steps(await healthy(host, 'vm-2'))).not.toContain('load')
    expect(existsSync(template)).toBe(false)
  },
)

// Not in `npm test`: the test of the second VM covers starts from a template.
test.skipIf(!hasQemu || !runsAll)(
  'after a start that failed for lack of firewall rules or disk space, the next VM uses the template (needs qemu)',
  limit,
  async () => {
    await using cache = await ownCache()
    await using dir = await testDir()
    const config = agentConfig({ ...qemu, dataDir: dir.path, cacheDir: cache.path, hostName: 'test' })
    await writeSampleImage(join(config.imageDir, 'hello'))
    let fault: 'rules' | 'disk' | undefined
    const held = async () => (fault === 'rules' ? Promise.reject(new Error('no rules today')) : undefined)
    const copy: RunCommand = async (program, args, options) => {
      if (fault === 'disk')
        throw new CommandError(program, 1, "cp: error writing 'scratch.img': No space left on device")
      return run(program, args, options)
    }
    const drivers = await createDrivers(config, { ...userNetwork(), held }, () => undefined, {
      launcher: {
        ...noLauncher,
        run: copy,
      },
    })
    const driver = drivers.get('qemu')
    if (!driver) throw new Error('BUG: no driver')
    await driver.probe(new AbortController().signal)
    /** Starts a VM and returns the steps of its start. */
    const start = async (vmId: string) => {
      const { runningVm, steps } = await bring(driver, await homeIn(dir.path, vmId), watcher())
      await runningVm.kill()
      return steps
    }
    const noRules = { code: 'network_failed', message: expect.stringContaining('no rules today') }

    fault = 'rules'
    await expect(start('vm-1'), 'it would boot').rejects.toMatchObject(noRules)
    fault = undefined
    expect(await start('vm-1')).toContain('template')
    const template = await cache.written()
    fault = 'rules'
    await expect(start('vm-2'), 'it would go on from the template').rejects.toMatchObject(noRules)
    fault = 'disk'
    await expect(start('vm-2')).rejects.toThrow('No space left')
    fault = undefined
    expect(await vmmsIn(dir.path)).toEqual([])
    expect(existsSync(template)).toBe(true)
    expect(await start('vm-2')).toContain('load')
    await driver.close()
  },
)

const child = fileURLToPath(new URL('../../../test/support/agent/agent-child.ts', import.meta.url))

// The agent is killed while the template is written, before its VM gets its identity, or while another VM loads the
// template. Not in `npm test`: adoption.test.ts covers kills of the agent, and the test of the second VM covers
// templates.
test.skipIf(!hasQemu || !runsAll).each(['memory', 'template', 'loading'])(
  'after kill -9 of the agent at step "%s", the next agent starts the VM, and its template is complete or absent (needs qemu)',
  limit,
  async moment => {
    await using cache = await ownCache()
    await using dir = await testDir()
    if (moment === 'loading') {
      await using other = await testAgent({ ...qemu, cacheDir: cache.path })
      await other.put(desired('vm-0', { hostname: 'hello-1' }))
      await healthy(other, 'vm-0')
      await cache.written()
    }
    const dataDir = join(dir.path, 'data')
    using first = startChild(dataDir, cache.path)
    const reached = async () => {
      if (moment === 'loading') return (await vmmsIn(dataDir)).length > 0
      const names = await cache.templates()
      if (moment === 'template') return names.some(name => !name.endsWith('.partial'))
      return names.some(name => existsSync(join(cache.path, 'templates', name, moment)))
    }
    await until(reached, { what: moment, timeoutMs: 60_000, everyMs: 1 })
    await first.kill()

    await using host = await testAgent({ ...qemu, dataDir, cacheDir: cache.path })
    expect((await cache.templates()).filter(name => name.endsWith('.partial'))).toEqual([])
    await healthy(host, 'vm-1')
    await cache.written()
    await host.put(desired('vm-2', {}, 3))
    expect(steps(await healthy(host, 'vm-2'))).toContain('load')
  },
)

test('the least recently used templates are evicted, and a limit of 0 disables templates', async () => {
  await using dir = await testDir()
  const errors: unknown[] = []
  const onError = (error: unknown) => void errors.push(error)
  const templates = openTemplates({ cacheDir: dir.path, maxMib: 2, onError })
  const make = async (key: string) => {
    await using claim = await templates.claim(key)
    expect(await templates.claim(key)).toBeUndefined()
    await claim?.fill(partial => writeFile(join(partial, 'memory'), Buffer.alloc(900_000, 1)))
  }
  for (const key of ['a', 'b']) await make(key)
  await templates.close()
  expect(await templates.find('a')).toBe(join(dir.path, 'templates/a'))
  await make('c')
  await templates.close()
  expect((await readdir(join(dir.path, 'templates'))).toSorted()).toEqual(['a', 'c'])
  expect(await templates.claim('a')).toBeUndefined()
  await templates.distrust('a')
  expect(await templates.find('a')).toBeUndefined()
  expect(await templates.claim('a')).toBeUndefined()

  await using failed = await templates.claim('d')
  await expect(failed?.fill(() => Promise.reject(new Error('full')))).rejects.toThrow('full')
  expect(await templates.find('d')).toBeUndefined()
  const none = openTemplates({ cacheDir: dir.path, maxMib: 0, onError })
  expect([await none.find('c'), await none.claim('e')]).toEqual([undefined, undefined])
  expect(errors).toEqual([])
})

function startChild(dataDir: string, cacheDir: string): Disposable & { kill(): Promise<void> } {
  const started: ChildProcess = spawn(process.execPath, [child, dataDir, 'healthy', '', cacheDir], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = once(started, 'exit')
  return {
    kill: async () => {
      started.kill('SIGKILL')
      await exited
    },
    [Symbol.dispose]: () => started.kill('SIGKILL'),
  }
}
