import { once } from 'node:events'
import { spawn } from 'node:child_process'
import { expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { until } from '../../../test/support/wait.ts'
import { run } from '../../lib/exec.ts'
import type { NetworkPlan } from './addresses.ts'
import { livingNamespaces, namespaceNames, removeNamespace } from './devices.ts'
import { tapNetwork } from './tap.ts'

const skip = process.getuid?.() !== 0
const ipv6 = 'fd00:1:2:3::5'
const plan: NetworkPlan = {
  appPort: 80,
  ipv6: { address: ipv6, project: 'fd00:1:2:3::/64' },
  firewall: { version: 1, rules: [] },
}

const inside = (name: string, ...args: string[]) => run('ip', ['-n', name, ...args])

test.skipIf(skip)("a VM's network namespace has its addresses, is new at each start, and goes with it", async () => {
  await using dir = await testDir()
  const network = await tapNetwork({ dataDir: dir.path, subnet: '10.213.0.0/16', healEveryMs: 1e9 })
  const nic = await network.connect('a', 80, undefined, 'namespace')
  const name = String(nic.tap)
  const address = await inside(name, '-4', '-o', 'addr', 'show', 'dev', 'eth0')
  expect(address).toContain(`${nic.guest.ip}/31`)
  expect(await inside(name, 'route')).toContain(`default via ${nic.guest.gateway}`)
  expect(await inside(name, 'link', 'show', 'dev', 'eth0')).toContain(nic.mac)
  // Do what a sandbox does: remove the address of the device.
  await inside(name, 'addr', 'flush', 'dev', 'eth0')
  const again = await network.connect('a', 80, undefined, 'namespace')
  expect(again.guest.ip).toBe(nic.guest.ip)
  expect(await inside(name, '-4', '-o', 'addr', 'show', 'dev', 'eth0')).toContain(`${nic.guest.ip}/31`)
  await network.release('a')
  await until(() => namespaceNames(name).length === 0, { what: 'its namespace is removed' })
  await network.close()
})

test.skipIf(skip)("a network namespace has the VM's private address and the route to its network", async () => {
  await using dir = await testDir()
  const network = await tapNetwork({ dataDir: dir.path, subnet: '10.213.0.0/16', healEveryMs: 1e9 })
  const nic = await network.connect('a', 80, plan, 'namespace')
  const name = String(nic.tap)
  if (nic.guest.ip6 !== undefined) {
    expect(await inside(name, '-6', '-o', 'addr', 'show', 'dev', 'eth0')).toContain(`${ipv6}/128`)
    expect(await inside(name, '-6', 'route')).toContain(String(nic.guest.route6))
  }
  await network.release('a')
  await network.close()
})

test.skipIf(skip)("a slot is in use while a process runs in one of the slot's network namespaces", async () => {
  const open = (dir: string) => tapNetwork({ dataDir: dir, subnet: '10.213.0.0/16', healEveryMs: 1e9 })
  await using kept = await testDir()
  const gone = await testDir()
  // This agent is never closed, like an agent after kill -9.
  const nic = await (await open(gone.path)).connect('a', 80, undefined, 'namespace')
  const name = String(nic.tap)
  const sandbox = spawn('ip', ['netns', 'exec', name, 'sleep', '60'], { stdio: 'ignore' })
  await until(() => livingNamespaces().includes(name), { what: 'a process lives in the namespace' })
  await gone[Symbol.asyncDispose]()
  const next = await open(kept.path)
  const other = await next.connect('b', 80)
  expect(other.tap?.at('mote'.length)).not.toBe(name.at('mote'.length))
  expect(namespaceNames(name)).toEqual([name])
  await next.release('b')
  await next.close()
  sandbox.kill('SIGKILL')
  await once(sandbox, 'exit')
  await removeNamespace(name, run)
  await run('nft', ['delete', 'table', 'inet', `mote_${name.at('mote'.length)}`])
})
