/**
 * What a newer agent says to an older control plane. Fields that are not known are ignored by every schema; this is for words that
 * are not known where one of a list is expected. A host is heard of in any case: what it offers and nobody here knows is not used,
 * and a VM in a state that nobody here knows is there, and nothing more is known of it.
 */
import { Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { HostHeartbeat, HypervisorName, hypervisorFeatures, VmObserved } from './agent.ts'
import { Route, RoutesAnswer } from './gateway.ts'

export interface ReadHeartbeat {
  readonly heartbeat: HostHeartbeat
  /** What was not understood, for the log: `feature x`, `hypervisor y`. */
  readonly unknown: readonly string[]
  /** Of VMs that were not understood: the generation that the host has of them, which is no news and may be needed to remove one. */
  readonly generations: ReadonlyMap<string, number>
}

/** Compiled: a beat with a hundred VMs is read in a tenth of the time. */
const heartbeatSchema = Compile(HostHeartbeat)

/** Of a beat, what has to be there to find the words that are not known. */
const Outline = Type.Object({
  hypervisors: Type.Array(Type.Object({ name: Type.String(), capabilities: Type.Object({ migrate: Type.String() }) })),
  vms: Type.Union([
    Type.Array(Type.Object({ vmId: Type.String(), generation: Type.Optional(Type.Integer()) })),
    Type.Null(),
  ]),
})

/** @throws Error when it is no beat even so */
export function readHeartbeat(data: unknown): ReadHeartbeat {
  if (heartbeatSchema.Check(data)) return { heartbeat: data, unknown: unknownFeatures(data), generations: new Map() }
  if (!Value.Check(Outline, data))
    return { heartbeat: Value.Parse(HostHeartbeat, data), unknown: [], generations: new Map() }
  const words: string[] = []
  const generations = new Map<string, number>()
  const hypervisors = data.hypervisors.flatMap(offer => {
    if (!Value.Check(HypervisorName, offer.name)) {
      words.push(`hypervisor ${offer.name}`)
      return []
    }
    const { capabilities } = offer
    if (migrations.has(capabilities.migrate)) return [offer]
    words.push(`way to move VMs ${capabilities.migrate}`)
    return [{ ...offer, capabilities: { ...capabilities, migrate: 'none' } }]
  })
  const vms = data.vms?.map(vm => {
    if (Value.Check(VmObserved, vm)) return vm
    words.push('state of a VM')
    if (vm.generation !== undefined) generations.set(vm.vmId, vm.generation)
    return unread(vm.vmId)
  })
  const heartbeat = Value.Parse(HostHeartbeat, { ...data, hypervisors, vms: vms ?? null })
  return { heartbeat, unknown: [...words, ...unknownFeatures(heartbeat)], generations }
}

const migrations: ReadonlySet<string> = new Set(['none', 'live', 'stop-and-copy'])
const features: ReadonlySet<string> = new Set(hypervisorFeatures)

const unknownFeatures = ({ hypervisors }: HostHeartbeat): string[] =>
  hypervisors.flatMap(offer => (offer.features ?? []).filter(one => !features.has(one)).map(one => `feature ${one}`))

const RouteOutline = Type.Object({ state: Type.String() })

/** In a state that nobody here knows nothing can be served: as one that is down. @throws Error when it is no route */
export const readRoute = (data: unknown): Route =>
  Value.Check(Route, data) || !Value.Check(RouteOutline, data)
    ? Value.Parse(Route, data)
    : Value.Parse(Route, { ...data, state: 'down' })

const RoutesOutline = Type.Object({ version: Type.Integer(), routes: Type.Array(Type.Unknown()) })

/** @throws Error when it is no answer, or one of them no route */
export function readRoutes(data: unknown): RoutesAnswer {
  if (Value.Check(RoutesAnswer, data)) return data
  const { version, routes } = Value.Parse(RoutesOutline, data)
  return { version, routes: routes.map(readRoute) }
}

/** It is there: under generation 0 that is no news of the VM, and its room stays taken. */
const unread = (vmId: string): VmObserved => ({
  vmId,
  generation: 0,
  state: 'crashed',
  healthy: false,
  endpoint: null,
  imageDigest: null,
  hypervisor: 'qemu',
  error: null,
  exitCode: null,
  restartCount: 0,
  startedAtMs: null,
  steps: [],
})
