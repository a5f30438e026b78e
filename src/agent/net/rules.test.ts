import { expect, it } from 'vitest'
import type { FirewallSpec } from '../../contract/network.ts'
import { vmChains } from './rules.ts'

const chains = (firewall: FirewallSpec) =>
  vmChains(0, { tap: 'mote00001', owner: undefined, plan: { appPort: 8080, ipv6: null, firewall } })

it('gateways reach the ports of the app and of its TCP services, and no other port of a guest', () => {
  expect(chains({ version: 1, rules: [] })).toContain('fib saddr type local tcp dport 8080 return')
  const text = chains({ version: 2, rules: [], ports: [1883, 8080] })
  expect(text.match(/tcp dport \{ 8080, 1883 \} return/g)).toHaveLength(3)
})
