/** Workflow definitions that must not compile. `tsc` checks this file: a missing compile error is itself an error. */
import { expect, test } from 'vitest'
import { done, go, workflow, wait } from './workflow.ts'

interface Parcel {
  readonly weight: number
}

const define = workflow<Parcel>()
const load = async () => ({ weight: 1 })

test('a valid workflow definition compiles, and its handlers get the resource with its own type', () => {
  const parcel = define({
    kind: 'parcel',
    edges: { packing: ['sending', 'packing'], sending: ['packing'] },
    load,
    preempt: subject => (subject.weight > 9 ? 'packing' : undefined),
    phases: {
      packing: async ({ subject }) => (subject.weight > 0 ? go('sending') : wait(5)),
      sending: async ({ attempt }) => (attempt > 3 ? go('packing', undefined, 1_000) : done()),
    },
  })
  expect(Object.keys(parcel.phases)).toEqual(['packing', 'sending'])
})

test('a handler that goes to a phase to which `edges` allows no transition does not compile', () => {
  define({
    kind: 'parcel',
    edges: { packing: ['sending'], sending: [] },
    load,
    phases: {
      packing: async () => go('sending'),
      // @ts-expect-error `edges` allows no transition from sending to packing
      sending: async () => go('packing'),
    },
  })
  define({
    kind: 'parcel',
    edges: { packing: ['sending'], sending: [] },
    load,
    phases: {
      // @ts-expect-error `edges` allows no transition from packing to packing, which one of the two decisions is
      packing: async ({ subject }) => (subject.weight > 1 ? go('packing') : go('sending')),
      sending: async () => done(),
    },
  })
})

test('a transition to a phase that is not declared does not compile', () => {
  define({
    kind: 'parcel',
    // @ts-expect-error there is no phase called lost
    edges: { packing: ['lost'] },
    load,
    phases: { packing: async () => done() },
  })
})

test('a definition with a phase without a handler, or a handler of an undeclared phase, does not compile', () => {
  define({
    kind: 'parcel',
    edges: { packing: ['sending'], sending: [] },
    load,
    // @ts-expect-error sending has no handler
    phases: { packing: async () => go('sending') },
  })
  define({
    kind: 'parcel',
    edges: { packing: [] },
    load,
    phases: {
      packing: async () => done(),
      // @ts-expect-error sending is not declared in edges
      sending: async () => done(),
    },
  })
})

test('a definition does not compile if `preempt` returns an undeclared phase, `load` a wrong type, or a handler no decision', () => {
  define({
    kind: 'parcel',
    edges: { packing: [] },
    load,
    // @ts-expect-error there is no phase called lost
    preempt: () => 'lost',
    phases: { packing: async () => done() },
  })
  define({
    kind: 'parcel',
    edges: { packing: [] },
    // @ts-expect-error a parcel has a numeric weight
    load: async () => ({ weight: 'heavy' }),
    phases: { packing: async () => done() },
  })
  define({
    kind: 'parcel',
    edges: { packing: [] },
    load,
    // @ts-expect-error a handler must return a decision
    phases: { packing: async () => undefined },
  })
})
