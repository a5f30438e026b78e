import type { Network } from './net.ts'
import { withoutFirewall } from './user.ts'

/** The network of simulated VMs. Their servers listen on the host's loopback, so no network device is needed. */
export function fakeNetwork(): Network {
  return {
    mode: 'fake',
    connect: async () => Promise.reject(new Error('BUG: simulated VMs have no network device')),
    release: async () => undefined,
    reclaim: async () => undefined,
    ...withoutFirewall('the host simulates its VMs: there are no packets to filter'),
  }
}
