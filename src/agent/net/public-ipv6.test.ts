/**
 * Tests a project with public IPv6 addresses (`MOTE_IPV6_PREFIX`): its guests reach the internet without NAT, and are
 * reached only if a rule allows it.
 */
import { expect, it } from 'vitest'
import type { FirewallRule } from '../../contract/network.ts'
import { run } from '../../lib/exec.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { networkPlan } from './addresses.ts'
import { tapNetwork } from './tap.ts'
import { becomeGuest, place, shortName, wire } from '../../../test/support/agent/net.ts'

const internet = { host: '2001:db8:fffe::2', port: 8080 }
const address = '2001:db8:77:1::5'

it.skipIf(process.getuid?.() !== 0)(
  'a VM with a public IPv6 address is reached from the internet as far as its rules allow (needs root)',
  { timeout: 60_000 },
  async () => {
    await using stack = new AsyncDisposableStack()
    const dir = stack.use(await testDir())
    const [outside, guest] = [stack.use(await place(shortName('mo'))), stack.use(await place(shortName('mg')))]
    await wire(outside, shortName('vo'), { host: ['2001:db8:fffe::1/64'], outside: [`${internet.host}/64`] })
    await outside.ip('route', 'add', '2001:db8:77::/48', 'via', '2001:db8:fffe::1')
    await outside.listen(internet.port)
    const network = await tapNetwork({
      dataDir: dir.path,
      subnet: '10.213.0.0/16',
      makeDevice: name => `link add dev ${name} type veth peer name eth0 netns ${guest.name}`,
    })
    stack.defer(() => network.close())
    const spec = { port: 8080, ipv6Address: address }
    const nic = await network.connect('public', spec.port, networkPlan(spec))
    stack.defer(() => network.release('public'))
    await becomeGuest(guest, nic)
    await guest.listen(8080)
    await guest.listen(9090)
    let version = 0
    const rules = async (...given: Pick<FirewallRule, 'direction' | 'action' | 'portStart' | 'portEnd'>[]) => {
      const all = given.map((rule, n) => ({ ...rule, id: `r${n}`, protocol: 'tcp' as const, cidr: null }))
      await network.guard('public', networkPlan({ ...spec, firewall: { version: ++version, rules: all } }))
    }

    expect(nic.guest.route6).toBe('::/0')
    expect(await guest.reaches(internet)).toBe(true)
    // The other side sees the VM's own address: there is no NAT.
    expect(await guest.reaches({ ...internet, from: address })).toBe(true)
    expect(await run('ip', ['-6', 'route', 'get', address])).toContain(nic.tap ?? '')
    const inward = (port: number) => ({ host: address, port })
    expect(await outside.blocked(inward(8080))).toBe(true)
    expect(await outside.blocked(inward(9090))).toBe(true)

    await rules({ direction: 'inbound', action: 'allow', portStart: 9090, portEnd: 9090 })
    expect(await outside.reaches(inward(9090))).toBe(true)
    expect(await outside.blocked(inward(8080))).toBe(true)

    await rules({ direction: 'outbound', action: 'deny', portStart: 0, portEnd: 65_535 })
    expect(await guest.blocked(internet)).toBe(true)
    expect(await outside.blocked(inward(9090))).toBe(true)
  },
)
