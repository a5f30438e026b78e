import { describe, expect, it } from 'vitest'
import { createDrains, type DrainFacts, drainDecision, goneMs, listenMs } from './drain.ts'

const usual: DrainFacts = { heldForMs: 100, boundMs: 5000, listeningForMs: 60_000, gateways: [] }
const gateway = (open: number | undefined, silentForMs = 100) => ({ open, silentForMs })
const cases: readonly (readonly [string, Partial<DrainFacts>, 'wait' | 'release'])[] = [
  ['without gateways', {}, 'release'],
  ['with requests under way', { gateways: [gateway(0), gateway(1)] }, 'wait'],
  ['with a gateway that has not heard of the move', { gateways: [gateway(0), gateway(undefined)] }, 'wait'],
  ['with nothing under way anywhere', { gateways: [gateway(0), gateway(0)] }, 'release'],
  ['with a gateway that is gone', { gateways: [gateway(0), gateway(3, goneMs)] }, 'release'],
  ['after the bound, whatever is under way', { heldForMs: 5000, gateways: [gateway(1)] }, 'release'],
  ['after the bound, although few gateways are known yet', { heldForMs: 5000, listeningForMs: 0 }, 'release'],
  ['of a control plane that has just started', { listeningForMs: listenMs - 1, gateways: [gateway(0)] }, 'wait'],
  ['with a bound of zero', { heldForMs: 0, boundMs: 0, gateways: [gateway(1)] }, 'release'],
]

describe('a VM that waits to leave', () => {
  it.each(cases)('%s: %s is decided as %s', (_name, change, decision) =>
    expect(drainDecision({ ...usual, ...change })).toBe(decision),
  )
})

it('keeps what each gateway said last, and forgets one that stops', () => {
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
