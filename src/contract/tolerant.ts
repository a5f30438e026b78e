/**
 * Reads messages of newer programs. Schemas ignore unknown fields; this file handles unknown values of enumerations. A
 * heartbeat is always accepted: unknown offers of a host are not used, and a VM in an unknown state counts as existing
 * without further information.
 */
import { Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { absentVm, HostHeartbeat, HypervisorName, hypervisorFeatures, VmObserved } from './agent.ts'
import { Route, RoutesAnswer } from './gateway.ts'

export interface ReadHeartbeat {
  readonly heartbeat: HostHeartbeat
  /** Unknown values in the message, for the log, such as `feature x` or `hypervisor y`. */
  readonly unknown: readonly string[]
  /** Generations of the VMs whose state is unknown. They are needed to remove such a VM. */
  readonly generations: ReadonlyMap<string, number>
}

/** Compiled schema, with which reading a heartbeat with 100 VMs is ten times as fast. */
const heartbeatSchema = Compile(HostHeartbeat)

/** The parts of a heartbeat in which an agent of a newer version may use values that this version does not know. */
const Outline = Type.Object({
  hypervisors: Type.Array(Type.Object({ name: Type.String(), capabilities: Type.Object({ migrate: Type.String() }) })),
  vms: Type.Union([
    Type.Array(Type.Object({ vmId: Type.String(), generation: Type.Optional(Type.Integer()) })),
    Type.Null(),
  ]),
})

/** Reads a heartbeat, ignoring unknown values. @throws Error if the rest of the message is not a valid heartbeat */
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

/**
 * Reads a route. A route in an unknown state cannot be served and is treated as down. @throws Error if the message is
 * not a route
 */
export const readRoute = (data: unknown): Route =>
  Value.Check(Route, data) || !Value.Check(RouteOutline, data)
    ? Value.Parse(Route, data)
    : Value.Parse(Route, { ...data, state: 'down' })

const RoutesOutline = Type.Object({ version: Type.Integer(), routes: Type.Array(Type.Unknown()) })

/**
 * Reads routes; those in an unknown state are treated as down. @throws Error if the message or one of its routes is not
 * valid
 */
export function readRoutes(data: unknown): RoutesAnswer {
  if (Value.Check(RoutesAnswer, data)) return data
  const { version, routes } = Value.Parse(RoutesOutline, data)
  return { version, routes: routes.map(readRoute) }
}

/**
 * Placeholder for a VM in an unknown state. Generation 0 makes it older than any observation, and the VM's capacity
 * stays reserved.
 */
const unread = (vmId: string): VmObserved => ({ ...absentVm(vmId, 0), state: 'crashed' })
