import { describe, expect, it } from 'vitest'
import { createDrains, type DrainFacts, drainDecision, goneMs, listenMs } from './drain.ts'

const usual: DrainFacts = { heldForMs: 100, boundMs: 5000, listeningForMs: 60_000, gateways: [] }
const gateway = (open: number | undefined, silentForMs = 100) => ({ open, silentForMs })
const cases: readonly (readonly [string, Partial<DrainFacts>, 'wait' | 'release'])[] = [
  ['may leave its host if there are no gateways', {}, 'release'],
  ['waits for open requests at any gateway', { gateways: [gateway(0), gateway(1)] }, 'wait'],
  ['waits for a gateway that does not know of the move yet', { gateways: [gateway(0), gateway(undefined)] }, 'wait'],
  ['may leave its host if no gateway has open requests', { gateways: [gateway(0), gateway(0)] }, 'release'],
  ['does not wait for a gateway that has stopped reporting', { gateways: [gateway(0), gateway(3, goneMs)] }, 'release'],
  [
    'may leave its host after the time limit, despite open requests',
    { heldForMs: 5000, gateways: [gateway(1)] },
    'release',
  ],
  [
    'may leave its host after the time limit, even before the gateways have reported',
    { heldForMs: 5000, listeningForMs: 0 },
    'release',
  ],
  [
    'waits until a control plane that has just started knows the gateways',
    { listeningForMs: listenMs - 1, gateways: [gateway(0)] },
    'wait',
  ],
  [
    'may leave its host at once with a time limit of zero',
    { heldForMs: 0, boundMs: 0, gateways: [gateway(1)] },
    'release',
  ],
]

describe('a VM that is about to move to another host', () => {
  it.each(cases)('%s', (_name, change, decision) => expect(drainDecision({ ...usual, ...change })).toBe(decision))
})

it('only the newest report of each gateway counts, and the reports of a gateway that stops are dropped', () => {
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
