import { describe, expect, it } from 'vitest'
import { createDrains, type DrainFacts, drainDecision, goneMs, listenMs } from './drain.ts'

const usual: DrainFacts = { heldForMs: 100, boundMs: 5000, listeningForMs: 60_000, gateways: [] }
const gateway = (open: number | undefined, silentForMs = 100) => ({ open, silentForMs })
const cases: readonly (readonly [string, Partial<DrainFacts>, 'wait' | 'release'])[] = [
  ['without gateways', {}, 'release'],
  ['with open requests', { gateways: [gateway(0), gateway(1)] }, 'wait'],
  ['with a gateway that does not know the move yet', { gateways: [gateway(0), gateway(undefined)] }, 'wait'],
  ['without open requests on any gateway', { gateways: [gateway(0), gateway(0)] }, 'release'],
  ['with a gateway that stopped reporting', { gateways: [gateway(0), gateway(3, goneMs)] }, 'release'],
  ['after the time limit, despite open requests', { heldForMs: 5000, gateways: [gateway(1)] }, 'release'],
  ['after the time limit, before the gateways are known', { heldForMs: 5000, listeningForMs: 0 }, 'release'],
  ['on a control plane that has just started', { listeningForMs: listenMs - 1, gateways: [gateway(0)] }, 'wait'],
  ['with a time limit of zero', { heldForMs: 0, boundMs: 0, gateways: [gateway(1)] }, 'release'],
]

describe('whether the host may hand over a VM that is about to move', () => {
  it.each(cases)('is decided correctly %s', (_name, change, decision) =>
    expect(drainDecision({ ...usual, ...change })).toBe(decision),
  )
})

it('the newest report of each gateway counts, and a gateway that stops is dropped', () => {
  const drains = createDrains(0)
  const report = (gatewayId: string, open: number | undefined, stops = false) => ({
    gatewayId,
    atMs: 0,
    apps: [],
    stops,
    ...(open === undefined ? {} : { leaving: [{ moveId: 'm', open }] }),
  })
  drains.record(report('one', 2), 0)
  drains.record(report('two', undefined), 50)
  drains.record(report('one', 0), 100)
  expect(drains.facts('m', 100)).toEqual({
    listeningForMs: 100,
    gateways: [
      { silentForMs: 0, open: 0 },
      { silentForMs: 50, open: undefined },
    ],
  })
  drains.record(report('two', undefined, true), 150)
  expect(drains.facts('m', 150).gateways).toEqual([{ silentForMs: 50, open: 0 }])
  drains.record(report('three', undefined), 100 + goneMs)
  expect(drains.facts('m', 100 + goneMs).gateways).toEqual([{ silentForMs: 0, open: undefined }])
})
