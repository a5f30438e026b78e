import { expect, it } from 'vitest'
import { featuresOf } from '../../src/agent/hypervisor/features.ts'
import { gvisorDriver } from '../../src/agent/hypervisor/gvisor/driver.ts'
import { qemuDriver } from '../../src/agent/hypervisor/qemu/driver.ts'
import { simGvisor, simQemu } from './sim-offers.ts'

const deps = { network: { mode: 'tap' }, cacheDir: '/nowhere', dataDir: '/nowhere' } as never

it.each([
  [simGvisor, gvisorDriver(deps)],
  [simQemu, qemuDriver(deps)],
] as const)('a simulated host offers %o with the capabilities and features of the real driver', (offer, driver) => {
  expect(offer.name).toBe(driver.name)
  expect(offer.capabilities).toEqual(driver.capabilities)
  expect(new Set(offer.features)).toEqual(new Set(featuresOf(driver)))
})
