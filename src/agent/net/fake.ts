import type { Network } from './net.ts'
import { withoutFirewall } from './user.ts'

/** Of simulated machines: their processes listen on the host's loopback, so there is nothing to connect. */
export function fakeNetwork(): Network {
  return {
    mode: 'fake',
    connect: async () => Promise.reject(new Error('BUG: simulated machines have no network device')),
    release: async () => undefined,
    reclaim: async () => undefined,
    ...withoutFirewall('the host simulates its machines: there are no packets to filter'),
  }
}
