import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isRunning } from '../../../lib/process-identity.ts'
import { writeSampleImage } from '../../image/sample.ts'
import { namespaceNames } from '../../net/devices.ts'
import { type TestAgent, testAgent, testDir, testSpec } from '../../../../test/support/agent/agent.ts'
import { runsAll } from '../../../../test/support/all-examples.ts'
import { driverCases } from '../../../../test/support/agent/hypervisor.ts'
import { startedProcesses } from '../../../../test/support/lib/environments.ts'
import { until } from '../../../../test/support/wait.ts'

/** Tests behavior that only gVisor has, with the real runsc. */
const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')

describe(gvisor?.name ?? 'gvisor', () => {
  const it = test.skipIf(gvisor?.skip ?? true)
  const itInAll = runsAll ? it : test.skip
  const desired = (generation: number, change = {}) => ({
    vmId: 'vm-1',
    generation,
    want: 'running' as const,
    spec: testSpec({ ...gvisor?.spec, maxRestarts: 2, ...change }),
  })
  const processOf = async ({ config }: TestAgent) =>
    JSON.parse(await readFile(join(config.dataDir, 'vms/vm-1/record.json'), 'utf8')).running.process
  const sh = async (host: TestAgent, script: string) => (await host.exec('vm-1', ['/bin/sh', '-c', script])).stdout

  // Not in `npm test`: the test of the size of a disk covers the root file system, with the same init.
  itInAll(
    "the guest's init takes less than 5 MiB of memory, and files in /tmp are stored on the disk",
    { timeout: 60_000 },
    async () => {
      await using host = await testAgent(gvisor?.config ?? {})
      await host.put(desired(1, { memoryMib: 128, diskMib: 1024 }))
      await host.until('vm-1', 'healthy', vm => vm.healthy)
      // The guest's init and the process that carries its ports take 2.7 MiB together. When that process was a fork of
      // init, it took 9.3 MiB.
      const [, kib] = /AnonPages: +(\d+) kB/.exec(await sh(host, 'cat /proc/meminfo')) ?? []
      expect(Number(kib)).toBeLessThan(5 * 1024)
      expect(await sh(host, 'stat -c "%a %F" /tmp; grep -c " /tmp " /proc/mounts')).toBe('1777 directory\n0\n')
      // More than the memory of the VM. Takes many seconds if other programs use the cores.
      const script = 'head -c 160000000 /dev/zero > /tmp/big; stat -c %s /tmp/big; rm /tmp/big'
      expect((await host.exec('vm-1', ['/bin/sh', '-c', script], 40_000)).stdout).toBe('160000000\n')
      await host.until('vm-1', 'still in its first run', vm => vm.healthy && vm.restartCount === 0)
    },
  )

  it('a guest that kills the process carrying its ports crashes and is restarted', { timeout: 60_000 }, async () => {
    await using host = await testAgent(gvisor?.config ?? {})
    await writeSampleImage(join(host.config.imageDir, 'root'), { user: 'root' })
    await host.put(desired(1, { image: 'oci:root' }))
    await host.until('vm-1', 'healthy', vm => vm.healthy)
    await sh(host, 'kill -9 2').catch(() => undefined)
    await host.until('vm-1', 'restarted', vm => vm.restartCount === 1 && vm.healthy)
  })

  // Not in `npm test`: spec.test.ts covers the CPU quota.
  itInAll(
    'the CPU quota of a sandbox is its number of vCPUs, with a period of 10 ms',
    { timeout: 60_000 },
    async () => {
      await using host = await testAgent(gvisor?.config ?? {})
      await host.put(desired(1, { vcpus: 1 }))
      await host.until('vm-1', 'healthy', vm => vm.healthy)
      const limit = limitOf((await processOf(host)).pid, 'cpu')
      const period = limit('cpu.cfs_period_us')
      const found = period === undefined ? limit('cpu.max') : `${limit('cpu.cfs_quota_us')} ${period}`
      if (found !== undefined) expect(found).toBe('10000 10000')
    },
  )

  // Not in `npm test`: contract.test.ts covers snapshots of guests with free memory.
  itInAll(
    'a guest that fills its memory survives the snapshots that are taken of it',
    { timeout: 60_000 },
    async () => {
      await using host = await testAgent(gvisor?.config ?? {})
      await host.put(desired(1, { memoryMib: 128, diskMib: 256 }))
      await host.until('vm-1', 'healthy', vm => vm.healthy)
      const process = await processOf(host)
      await sh(host, 'dd if=/dev/urandom of=/dev/shm/fill bs=1M count=110 2>/dev/null')
      for (const snapshotId of ['s-1', 's-2', 's-3']) await host.snapshot(snapshotId, 'vm-1')
      expect(await processOf(host)).toEqual(process)
    },
  )

  // Not in `npm test`: timer-slack.test.ts covers this.
  itInAll('an idle sandbox gets timer slack, and loses it once its program computes', { timeout: 60_000 }, async () => {
    await using host = await testAgent(gvisor?.config ?? {})
    await host.put(desired(1))
    await host.until('vm-1', 'healthy', vm => vm.healthy)
    const { pid } = await processOf(host)
    const slackMs = async () => Number(await readFile(`/proc/${pid}/timerslack_ns`, 'utf8')) / 1e6
    await until(async () => (await slackMs()) === 20, { what: 'slack', timeoutMs: 30_000 })
    const busy = host.exec('vm-1', ['/bin/sh', '-c', 'while [ ! -e /tmp/done ]; do :; done'], 30_000)
    await until(async () => (await slackMs()) === 0.05, { what: 'no slack' })
    await sh(host, 'touch /tmp/done')
    await busy
  })

  it('VMs of one project reach each other by IPv6, and by IPv4 neither each other nor the host', {
    timeout: 60_000,
  }, async () => {
    await using host = await testAgent(gvisor?.config ?? {})
    for (const n of [1, 2]) {
      const change = { ipv6Address: `fd12:3456:789a:1::${n}`, hostname: `h${n}` }
      await host.put({ ...desired(1, change), vmId: `vm-${n}` })
      await host.until(`vm-${n}`, 'healthy', vm => vm.healthy)
    }
    const { endpoint } = await host.get('vm-2')
    const ask = (address: string, port: number) =>
      sh(host, `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 ${address} ${port} || echo no answer`)
    expect(await ask('fd12:3456:789a:1::2', 8080)).toContain('Hello from h2')
    expect(await ask(String(endpoint?.host), 8080)).toBe('no answer\n')
    await using server = createServer(socket => socket.end('the host')).listen(0, '0.0.0.0')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    expect(await ask('127.0.0.1', port)).toBe('no answer\n')
  })

  it('no cgroup is left after the last sandbox and its agent have stopped', { timeout: 60_000 }, async () => {
    const groups = () => {
      const found = readFileSync('/proc/self/mounts', 'utf8').matchAll(/^\S+ (\S+) cgroup2? /gm)
      return [...found].map(([, mount = '']) => join(mount, 'mote')).filter(existsSync)
    }
    await using dir = await testDir()
    const host = await testAgent({ ...gvisor?.config, dataDir: dir.path })
    await host.put(desired(1))
    await host.until('vm-1', 'healthy', vm => vm.healthy)
    const { pid } = await processOf(host)
    const own = new Set(
      [...readFileSync(`/proc/${pid}/cgroup`, 'utf8').matchAll(/\/mote\/(\w+)\//g)].map(([, agent = '']) => agent),
    )
    await host[Symbol.asyncDispose]()
    const left = groups().flatMap(parent => readdirSync(parent).filter(name => own.has(name)))
    expect(left).toEqual([])
  })

  describe.skipIf(gvisor?.skip ?? true)('one running VM', () => {
    let host: TestAgent
    beforeAll(async () => {
      process.env['MOTE_SMTP_PASSWORD'] = 'hunter2-of-the-agent'
      host = await testAgent(gvisor?.config ?? {})
      await host.put(desired(1, { diskMib: 32, memoryMib: 256 }))
      await host.until('vm-1', 'healthy', vm => vm.healthy)
    })
    afterAll(async () => {
      delete process.env['MOTE_SMTP_PASSWORD']
      await host?.[Symbol.asyncDispose]()
    })

    it('no process of a sandbox has a secret of the agent in its environment', async () => {
      const { pid } = await processOf(host)
      const started = startedProcesses()
      const environ = await readFile(`/proc/${pid}/environ`, 'latin1')
      expect([environ, ...started.map(one => one.environ)].join('\n')).not.toContain('hunter2')
      expect(started.length).toBeGreaterThan(0)
    })

    it('a guest sees the size of its disk and its memory limit', { timeout: 60_000 }, async () => {
      expect(Number(/(\d+) /.exec((await sh(host, 'df -Pm / | tail -1')).replace(/^none\s+/, ''))?.[1])).toBe(32)
      const kib = Number(/MemTotal:\s+(\d+)/.exec(await sh(host, 'cat /proc/meminfo'))?.[1])
      if (existsSync('/sys/fs/cgroup/memory') || existsSync('/sys/fs/cgroup/cgroup.controllers'))
        expect(kib).toBe(256 * 1024)
    })

    it('a guest can run 300 processes, and its sandbox has a task limit on the host', { timeout: 60_000 }, async () => {
      const { pid } = await processOf(host)
      const most = limitOf(pid, 'pids')('pids.max')
      if (most !== undefined) expect(most).toBe('4096')
      const started = await sh(
        host,
        'i=0; while [ $i -lt 300 ]; do sleep 600 & i=$((i+1)); done; ps | grep -c "sleep 600"',
      )
      expect(Number(started)).toBeGreaterThanOrEqual(300)
      expect((await processOf(host)).pid, 'the sandbox did not end').toBe(pid)
    })

    it('a killed sandbox is started again, with a new root file system', { timeout: 60_000 }, async () => {
      await sh(host, 'echo left > /tmp/left')
      process.kill((await processOf(host)).pid, 'SIGKILL')
      await host.until('vm-1', 'restarted', vm => vm.restartCount === 1 && vm.healthy)
      expect(await sh(host, 'cat /tmp/left || echo gone')).toBe('gone\n')
    })

    // This test must be the last one, because it removes the VM's record.
    it('an agent removes the sandbox, volumes and namespace of a VM that it has no record of', {
      timeout: 60_000,
    }, async () => {
      const sandbox = await processOf(host)
      const { dataDir } = host.config
      const namespace = String(
        JSON.parse(await readFile(join(dataDir, 'vms/vm-1/record.json'), 'utf8')).running.prepared.notes.tap,
      )
      expect(namespaceNames(namespace)).toEqual([namespace])
      await host.restart(async () => {
        for (const name of ['record.json', 'wish.json']) await rm(join(dataDir, 'vms/vm-1', name))
      })
      await until(() => !isRunning(sandbox), { what: 'the sandbox has ended' })
      await until(() => readdirSync(join(dataDir, 'runsc')).every(name => !name.startsWith('vm-1')), {
        what: 'runsc has forgotten it',
      })
      await until(() => namespaceNames(namespace).length === 0, { what: 'its namespace is gone' })
    })
  })
})

/** Returns a function that reads a file of the process's cgroup (v1 or v2); undefined if the controller is missing. */
function limitOf(pid: number, controller: string): (file: string) => string | undefined {
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
  const places = [...groups.matchAll(/^\d+:([\w,=]*):(.*)$/gm)].flatMap(([, names = '', path = '']) => {
    if (names !== '' && !names.split(',').includes(controller)) return []
    const pattern =
      names === '' ? /^\S+ (\S+) cgroup2 /m : new RegExp(`^\\S+ (\\S+) cgroup \\S*\\b${controller}\\b`, 'm')
    const mount = pattern.exec(mounts)?.[1]
    return mount === undefined ? [] : [join(mount, path)]
  })
  return file =>
    places
      .map(place => join(place, file))
      .filter(existsSync)
      .map(at => readFileSync(at, 'utf8').trim())[0]
}
