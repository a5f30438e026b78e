/** Connects a test system to the network of this machine: a veth pair with address translation. */
import { readFile, writeFile } from 'node:fs/promises'
import { run } from '../../src/lib/exec.ts'

/**
 * Returns the addresses of a /30 network in 198.18.0.0/15, which RFC 2544 reserves for tests; unique to this process.
 */
function ownAddresses(): readonly [here: string, there: string] {
  const first = (process.pid % 2 ** 15) * 4
  const address = (n: number) => `198.${18 + (first >> 16)}.${(first >> 8) & 255}.${(first & 255) + n}`
  return [address(1), address(2)]
}

export const tablePrefix = 'mote_anywhere_'

export interface Wire extends AsyncDisposable {
  /** Address of this machine's end of the veth pair. */
  readonly host: string
}

/**
 * Connects a network namespace to this machine. The test system has its own namespace, so that the README's command
 * runs verbatim, and shares no ports, taps or firewall rules with an instance of Mote that runs beside the tests.
 * @param pid of a process in the network namespace
 */
export async function wire(pid: number): Promise<Wire> {
  const device = `ma${process.pid.toString(36)}`
  const table = `${tablePrefix}${process.pid}`
  const [here, there] = ownAddresses()
  const inside = (...args: string[]) => run('nsenter', ['--target', String(pid), '--net', 'ip', ...args])
  await using undo = new AsyncDisposableStack()
  await run('ip', ['link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid)])
  undo.defer(async () => void (await run('ip', ['link', 'del', 'dev', device]).catch(() => '')))
  await run('ip', ['addr', 'add', `${here}/30`, 'dev', device])
  await run('ip', ['link', 'set', device, 'up'])
  await inside('link', 'set', 'lo', 'up')
  await inside('addr', 'add', `${there}/30`, 'dev', 'eth0')
  await inside('link', 'set', 'eth0', 'up')
  await inside('route', 'add', 'default', 'via', here)
  const rules = [
    `table ip ${table} {`,
    'chain way_out {',
    'type nat hook postrouting priority srcnat',
    `ip saddr ${there} masquerade`,
    '}',
    '}',
  ]
  await run('nft', ['-f', '-'], { input: `${rules.join('\n')}\n` })
  undo.defer(async () => void (await run('nft', ['delete', 'table', 'ip', table])))
  await enableForwarding()
  const all = undo.move()
  return { host: here, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

/** Enables IPv4 forwarding. It remains enabled after the test, because another program may have come to rely on it. */
async function enableForwarding(): Promise<void> {
  const file = '/proc/sys/net/ipv4/ip_forward'
  if ((await readFile(file, 'utf8')).trim() !== '1') await writeFile(file, '1')
}
