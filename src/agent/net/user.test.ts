import { expect, it } from 'vitest'
import { agentAddresses, networkPlan, sliceOf } from './addresses.ts'
import { fakeNetwork } from './fake.ts'
import { userNetwork } from './user.ts'

it.each([
  ['without root', userNetwork(), /without root.*nothing leaves the VM/],
  ['on a simulated host', fakeNetwork(), /simulates/],
])('%s, firewall rules are acknowledged and reported as not enforced', async (_where, network, why) => {
  expect(network.guarded('vm')).toBeUndefined()
  const firewall = { version: 7, rules: [] }
  await network.guard('vm', networkPlan({ port: 80, ipv6Address: 'fd00::1', firewall }))
  expect(network.guarded('vm')).toEqual({
    version: 7,
    state: 'unenforced',
    detail: expect.stringMatching(why),
    healed: 0,
  })
})

it("with user networking, only the port of the app is forwarded to a guest, from the host's loopback", async () => {
  const network = userNetwork()
  const nic = await network.connect('vm', 8080, networkPlan({ port: 8080, ipv6Address: '' }))
  // QEMU's `restrict=on` keeps a guest from reaching the host and the internet.
  expect(nic.netdev).toMatch(/^user,id=n0,restrict=on,hostfwd=tcp:127\.0\.0\.1:\d+-[\d.]+:8080$/)
})

it('a plan without a valid IPv6 address gives the VM no IPv6', () => {
  expect(networkPlan({ port: 80, ipv6Address: '' }).ipv6).toBeNull()
  expect(networkPlan({ port: 80, ipv6Address: '10.0.0.1' }).ipv6).toBeNull()
  expect(networkPlan({ port: 80, ipv6Address: 'fd00:1:2:3:4::9' }).ipv6?.project).toBe('fd00:1:2:3::/64')
})

it("a pair's host address maps back to the pair in its own slot only", () => {
  const slot = agentAddresses(sliceOf('10.213.0.0/16', 3))
  const { host, guest } = slot.pair(1000)
  expect([host, guest]).toEqual(['10.213.55.208', '10.213.55.209'])
  expect([slot.indexOf(host), slot.indexOf(slot.hostOf(guest))]).toEqual([1000, 1000])
  expect(slot.indexOf(guest), 'not the host').toBeUndefined()
  expect(agentAddresses(sliceOf('10.213.0.0/16', 4)).indexOf(host)).toBeUndefined()
  expect(agentAddresses(sliceOf('10.99.0.0/16', 3)).indexOf(host)).toBeUndefined()
  expect(slot.indexOf(slot.probe), 'the agent itself').toBeUndefined()
})
