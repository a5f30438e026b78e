/** Tests which network addresses a compromised VMM process can reach. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { until } from '../../../test/support/wait.ts'
import { run } from '../../lib/exec.ts'
import { tapNetwork } from '../net/tap.ts'
import { testAgent, testDir, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'
import { openIsolation } from './isolation.ts'
import { buildNetless, tapFd } from './netless.ts'
import { endProcess } from './process.ts'
import {
  bring,
  fakedHost,
  fakedVmms,
  homeIn,
  unreachable,
  watcher,
} from '../../../test/support/agent/hypervisor-drivers.ts'
import { devicesOf } from '../../../test/support/agent/hypervisor-tap.ts'

const why = process.getuid?.() !== 0 ? 'needs root' : existsSync('/usr/bin/qemu-system-x86_64') ? '' : 'needs qemu'

/** Program that connects to each argument (address and port, or an abstract socket's name) and prints the results. */
const knock = `
const net = require('node:net')
const tries = process.argv.slice(1).map(to => new Promise(resolve => {
  const at = to.lastIndexOf(':')
  const socket = net.connect(at < 0 ? { path: '\\0' + to } : { host: to.slice(0, at), port: Number(to.slice(at + 1)), timeout: 2000 })
  socket.on('connect', () => { resolve([to, 'open']); socket.destroy() })
  socket.on('timeout', () => { resolve([to, 'silent']); socket.destroy() })
  socket.on('error', error => resolve([to, error.code]))
}))
Promise.all(tries).then(found => console.log(JSON.stringify(Object.fromEntries(found))))`

async function outcome(before: readonly string[], targets: readonly string[]): Promise<Record<string, string>> {
  const [program = '', ...args] = [...before, process.execPath, '-e', knock, ...targets]
  return JSON.parse((await promisify(execFile)(program, args)).stdout)
}

test.skipIf(why !== '')(
  `a VMM cannot connect to the host, the control plane or other VMs ${why}`,
  { timeout: 120_000 },
  async () => {
    await using host = await testAgent({ hypervisor: 'qemu', network: 'tap' })
    const control = createServer(socket => socket.end()).listen(0, '0.0.0.0')
    const abstract = `mote-test-${process.pid}`
    const local = createServer(socket => socket.end()).listen(`\0${abstract}`)
    await Promise.all([once(control, 'listening'), once(local, 'listening')])
    using _closing = { [Symbol.dispose]: () => void [control.close(), local.close()] }
    const { port } = control.address() as AddressInfo

    await host.put({ vmId: 'taken', generation: 1, want: 'running', spec: testSpec() })
    await host.put({ vmId: 'other', generation: 1, want: 'running', spec: testSpec() })
    const taken = await host.until('taken', 'healthy', vm => vm.healthy)
    const other = await host.until('other', 'healthy', vm => vm.healthy)
    const pids = await vmmsIn(host.config.dataDir)
    const isolation = await openIsolation(host.config.dataDir)
    const uid = isolation.userOf('taken')?.uid ?? 0
    const uidOf = async (pid: number) => Number((await run('stat', ['-c', '%u', `/proc/${pid}`])).trim())
    const owners = await Promise.all(pids.map(uidOf))
    const pid = pids[owners.indexOf(uid)] ?? 0
    const targets = [
      ...[`127.0.0.1:${port}`, `${taken.endpoint?.host.replace(/\d+$/, last => String(Number(last) - 1))}:${port}`],
      ...[`${other.endpoint?.host}:8080`, `${taken.endpoint?.host}:8080`, '192.0.2.1:80', abstract],
    ]
    const asUser = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups']

    // Control: all targets are reachable from the host itself.
    const fromHost = await outcome(
      [],
      targets.filter(target => target !== '192.0.2.1:80'),
    )
    expect(new Set(Object.values(fromHost))).toEqual(new Set(['open']))

    const inside = ['nsenter', '-t', String(pid), '-n']
    // Check the namespace of each thread: a thread created before unshare would stay in the host's namespace.
    const threads = readdirSync(`/proc/${pid}/task`).map(task => readlinkSync(`/proc/${pid}/task/${task}/ns/net`))
    expect(threads.length).toBeGreaterThan(1)
    expect(new Set(threads).size).toBe(1)
    expect(threads).not.toContain(readlinkSync('/proc/self/ns/net'))
    expect(await devicesOf(pid)).toMatchObject([{ ifname: 'lo', operstate: 'DOWN', addr_info: [] }])
    for (const before of [inside, [...inside, ...asUser]])
      expect(Object.values(await outcome(before, targets)).filter(result => result === 'open')).toEqual([])

    // If the VMM has no separate network namespace, it is blocked by the firewall, which drops packets of the VM's user.
    const network = targets.filter(target => target !== abstract)
    expect(Object.values(await outcome(asUser, network)).filter(result => result === 'open')).toEqual([])
    expect(await outcome(['setpriv', '--reuid=65534', '--clear-groups'], [`127.0.0.1:${port}`])).toEqual({
      [`127.0.0.1:${port}`]: 'open',
    })
    expect((await host.get('taken')).healthy).toBe(true)
  },
)

// Only partly in `npm test`: Firecracker, or Cloud Hypervisor if it cannot run here, covers the other one, because both
// drivers connect the tap with the same code.
const tried = runsAll ? fakedVmms : fakedVmms.filter(fake => unreachable(fake) === undefined).slice(0, 1)
test.skipIf(process.getuid?.() !== 0).for(tried)(
  '$name with a fake VMM cannot connect to anything: its tap moves to the host, its namespace stays empty (needs root)',
  { timeout: 120_000 },
  async (fake, { skip }) => {
    const reason = unreachable(fake)
    skip(reason !== undefined, reason)
    await using dir = await testDir()
    await chmod(dir.path, 0o755)
    const isolation = await openIsolation(dir.path)
    const ownerOf = (vmId: string) => isolation.userOf(vmId)?.uid
    const network = await tapNetwork({ dataDir: dir.path, subnet: null, ownerOf })
    const { driver } = await fakedHost(fake, dir.path, isolation, network)
    const abstract = `mote-test-${process.pid}-${fake.name}`
    const control = createServer(socket => socket.end()).listen(0, '0.0.0.0')
    const local = createServer(socket => socket.end()).listen(`\0${abstract}`)
    await Promise.all([once(control, 'listening'), once(local, 'listening')])
    using _closing = { [Symbol.dispose]: () => void [control.close(), local.close()] }
    const { port } = control.address() as AddressInfo
    const home = await homeIn(dir.path, 'taken')
    const { runningVm } = await bring(driver, home, watcher())
    try {
      const { pid } = runningVm.running.process
      const { tap, guest } = runningVm.running.prepared.notes
      const { ip, gateway } = JSON.parse(String(guest))
      expect(readFileSync(`/sys/class/net/${tap}/owner`, 'utf8').trim()).toBe(String(ownerOf('taken')))
      expect(await run('ip', ['-4', '-o', 'address', 'show', 'dev', String(tap)])).toContain(`${gateway}/31`)
      expect(await run('ip', ['neighbour', 'show', 'dev', String(tap)])).toContain(ip)
      expect(await devicesOf(pid)).toMatchObject([{ ifname: 'lo', operstate: 'DOWN', addr_info: [] }])

      const targets = [`127.0.0.1:${port}`, `${gateway}:${port}`, `[::1]:${port}`, abstract]
      const inside = ['nsenter', `--net=/proc/${pid}/ns/net`]
      const asUser = ['setpriv', `--reuid=${ownerOf('taken')}`, '--clear-groups']
      expect(await outcome([], targets.slice(0, 2))).toEqual({ [targets[0] ?? '']: 'open', [targets[1] ?? '']: 'open' })
      expect(await outcome(asUser, [abstract]), 'without a namespace').toEqual({ [abstract]: 'open' })
      for (const before of [inside, [...inside, ...asUser]])
        expect(Object.values(await outcome(before, targets)).filter(result => result === 'open')).toEqual([])

      // The second start finds the tap of the first one on the host, as after a crash of the agent.
      await runningVm.stop(500)
      const again = await bring(driver, home, watcher())
      expect(again.runningVm.running.prepared.endpoint).toEqual(runningVm.running.prepared.endpoint)
      expect(await devicesOf(again.runningVm.running.process.pid)).toHaveLength(1)
      await endProcess(again.runningVm.running)
      await driver.release('taken', home.dir)
      await until(() => !existsSync(`/sys/class/net/${tap}`), { what: 'its tap has gone' })
    } finally {
      await endProcess(runningVm.running)
      await driver.close()
    }
  },
)

test.skipIf(process.getuid?.() !== 0)(
  "only the VM's user can open a tap, and netless creates no tap (needs root)",
  async () => {
    await using dir = await testDir()
    const netless = await buildNetless(dir.path)
    await run('chmod', ['-R', 'a+rX', dir.path])
    const tap = `mt${process.pid.toString(36)}`
    await run('ip', ['tuntap', 'add', 'dev', tap, 'mode', 'tap', 'user', '1900000001'])
    const as = (uid: number, name = tap) =>
      run('setpriv', [`--reuid=${uid}`, '--clear-groups', netless, name, String(tapFd), 'true'])
    try {
      // If the kernel's default mode applies, only root may open /dev/net/tun, so another user fails before it opens a
      // tap.
      const isOpen = (statSync('/dev/net/tun').mode & 0o006) === 0o006
      const refused = '/dev/net/tun: Permission denied'
      await expect(as(1_900_000_002)).rejects.toThrow(isOpen ? `${tap}: Operation not permitted` : refused)
      // The VM's user may open the tap, but may not unshare the network namespace; only the agent can.
      await expect(as(1_900_000_001)).rejects.toThrow(isOpen ? 'unshare: Operation not permitted' : refused)
      await expect(as(0, 'mt-missing')).rejects.toThrow('mt-missing: No such device')
      await as(0)
    } finally {
      await run('ip', ['link', 'del', 'dev', tap])
    }
  },
)
