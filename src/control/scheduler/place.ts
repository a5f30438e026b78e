/**
 * Chooses a host for a VM: filters, then scores. Pure. The result is only a proposal: the reservation (a conditional
 * UPDATE) checks the host's capacity again, so a placement from outdated numbers cannot exceed it.
 */
import type { HypervisorFeature, HypervisorName } from '../../contract/agent.ts'
import { labelsText } from '../../lib/labels.ts'
import { fulfils, type HostWishes, type Labeled, liking, unfulfilled } from './wishes.ts'

interface Offered {
  readonly name: HypervisorName
  readonly available: boolean
  readonly probing?: boolean
  readonly emulated?: boolean
  /** Features of the hypervisor. Absent if the agent does not report features; then all are assumed. */
  readonly features?: readonly string[]
}

export interface HostView extends Labeled {
  readonly id: string
  readonly name: string
  readonly arch: string
  readonly hypervisors: readonly Offered[]
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly usedVcpus: number
  readonly usedMemoryMib: number
  readonly usedDiskMib: number
  /**
   * Images of database engines on the host. Null or absent if the agent does not report them; then all images are
   * assumed.
   */
  readonly databaseImages?: readonly string[] | null
  readonly cordoned: boolean
  /** False if the host has not sent a heartbeat for too long. */
  readonly up: boolean
}

export interface PlacementRequest {
  /** The requested hypervisor; undefined: the best one that the host offers. */
  readonly hypervisor: WantedHypervisor | undefined
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  /** Hosts that already run a replica of the same deployment: avoided while others have capacity. */
  readonly siblings: ReadonlySet<string>
  /** Hosts to exclude, for example because they refused the VM. */
  readonly excluded?: ReadonlySet<string>
  /** Hosts that cannot store or reach the VM's volumes. */
  readonly withoutStorage?: ReadonlySet<string>
  /** Features that the hypervisor must have. */
  readonly needs?: readonly HypervisorFeature[]
  /** Image of a database engine, such as `postgres:15`. Hosts do not pull these images by themselves. */
  readonly databaseImage?: string
  /** Host that built the VM's image. Set if the image is in no registry, so that no other host has it. */
  readonly builtOn?: string
  /** Hosts where the VM's volumes would be encrypted. Their hypervisors must be able to open encrypted volumes. */
  readonly encryptedOn?: ReadonlySet<string>
  /** Host labels that the app requires or prefers. */
  readonly wishes?: HostWishes | undefined
  /** If set, only this host is possible, because it stores a volume of the VM or is the target of a migration. */
  readonly pinnedTo?: string
}

export type Policy = 'spread' | 'bin-pack'

export type Rejection =
  | 'down'
  | 'cordoned'
  | 'excluded'
  | 'volume elsewhere'
  | 'image elsewhere'
  | 'lacks a required label'
  | 'no room in its storage pools'
  | 'hypervisor not offered'
  | 'hypervisor lacks a needed feature'
  | 'lacks the database image'
  | 'still starting'
  | 'not enough vCPUs'
  | 'not enough memory'
  | 'not enough disk'

export interface Placement {
  readonly host: { readonly id: string; readonly name: string; readonly hypervisor: HypervisorName } | undefined
  readonly rejected: readonly { readonly id: string; readonly name: string; readonly reason: Rejection }[]
  /** Labels that the app requires, as text; empty if it requires none. */
  readonly required: string
  /**
   * True if a host could run the VM after other VMs have left it. False if the VM would not fit even on empty hosts.
   */
  readonly couldFit: boolean
}

/**
 * Hypervisors, best first. `fake`, the simulated one, is chosen only if a host offers no other or the request names
 * it.
 */
const preference = [
  'firecracker',
  'cloud-hypervisor',
  'qemu',
  'gvisor',
  'fake',
] as const satisfies readonly HypervisorName[]

/**
 * A hypervisor that a request may name. `vm` stands for any hypervisor except gVisor, whose guests have no Linux
 * kernel of their own.
 */
export type WantedHypervisor = HypervisorName | 'vm'

/** Returns the host's hypervisors, best first. Emulation comes after everything that runs at native speed. */
function ranked(host: HostView): readonly Offered[] {
  const byName = preference.flatMap(name => host.hypervisors.filter(one => one.name === name))
  const last = ({ emulated, name }: Offered) => (name === 'fake' ? 2 : emulated === true ? 1 : 0)
  return byName.toSorted((a, b) => last(a) - last(b))
}

/** Returns the hypervisor that the host would use; undefined when none of its hypervisors is suitable. */
export function offered(
  host: HostView,
  request: Pick<PlacementRequest, 'hypervisor' | 'needs' | 'encryptedOn'>,
): HypervisorName | undefined {
  const { hypervisor: wanted, needs = [], encryptedOn } = request
  const able = (features: readonly string[] | undefined) =>
    features === undefined ||
    (needs.every(need => features.includes(need)) &&
      (!encryptedOn?.has(host.id) || features.includes('encrypted-volumes')))
  const suitable = ({ name }: Offered) => {
    if (wanted === 'vm') return name !== 'gvisor'
    return wanted === undefined || name === wanted
  }
  return ranked(host).find(one => suitable(one) && one.available && able(one.features))?.name
}

/**
 * Returns whether a faster hypervisor may become available within seconds, because the agent has just started and still
 * probes it.
 */
function mayGetFaster(host: HostView, { hypervisor }: PlacementRequest): boolean {
  if (hypervisor !== undefined) return false
  const usable = ranked(host).filter(one => one.available || one.probing === true)
  const [first] = usable
  return first?.probing === true && usable.find(one => one.available)?.emulated === true
}

/** Reasons for rejecting a host that remain even if other VMs leave the host. */
const permanent: ReadonlySet<Rejection> = new Set([
  ...([
    'volume elsewhere',
    'image elsewhere',
    'lacks a required label',
    'hypervisor not offered',
    'hypervisor lacks a needed feature',
    'excluded',
  ] as const),
])

/** Returns the chosen host, and for each unsuitable host the reason why it was rejected. */
export function place(hosts: readonly HostView[], request: PlacementRequest, policy: Policy = 'spread'): Placement {
  const host = pick(hosts, request, policy)
  const rejected: { id: string; name: string; reason: Rejection }[] = []
  let couldFit = host !== undefined
  for (const one of hosts) {
    const reason = reject(one, request)
    if (!reason) continue
    rejected.push({ id: one.id, name: one.name, reason })
    if (!permanent.has(reason) && fitsEmpty(one, request)) couldFit = true
  }
  return { host, rejected, couldFit, required: labelsText(request.wishes?.require ?? {}) }
}

/**
 * Returns only the chosen host. Faster than `place`, because it checks a host only if its score is better than that of
 * the best suitable host so far: of a thousand hosts, nearly all need no further checks.
 */
export function pick(
  hosts: readonly HostView[],
  request: PlacementRequest,
  policy: Policy = 'spread',
): Placement['host'] {
  let best: { readonly host: HostView; readonly hypervisor: HypervisorName; readonly score: number } | undefined
  const open = { ...request, needs: [...(request.needs ?? []), 'private-network' as const] }
  const isBetter = (host: HostView, score: number) =>
    !best || score > best.score || (score === best.score && host.id < best.host.id)
  for (const host of hosts) {
    const most = rate(host, request, policy)
    if (!isBetter(host, most)) continue
    const hypervisor = reject(host, request) ? undefined : offered(host, request)
    if (!hypervisor) continue
    // Lower the score of a host without private networks, so that it is chosen only if no other host is suitable.
    const score = most - (offered(host, open) ? 0 : 5)
    if (isBetter(host, score)) best = { host, hypervisor, score }
  }
  return best && { id: best.host.id, name: best.host.name, hypervisor: best.hypervisor }
}

function reject(host: HostView, request: PlacementRequest): Rejection | undefined {
  if (request.excluded?.has(host.id)) return 'excluded'
  if (request.pinnedTo !== undefined && host.id !== request.pinnedTo) return 'volume elsewhere'
  if (request.builtOn !== undefined && host.id !== request.builtOn) return 'image elsewhere'
  if (!fulfils(host, request.wishes)) return 'lacks a required label'
  if (request.withoutStorage?.has(host.id)) return 'no room in its storage pools'
  if (!offered(host, request)) return unfit(host, request)
  if (mayGetFaster(host, request)) return 'still starting'
  const { databaseImage } = request
  if (databaseImage && host.databaseImages && !host.databaseImages.includes(databaseImage))
    return 'lacks the database image'
  if (!host.up) return 'down'
  if (host.cordoned) return 'cordoned'
  if (host.usedVcpus + request.vcpus > host.vcpus) return 'not enough vCPUs'
  if (host.usedMemoryMib + request.memoryMib > host.memoryMib) return 'not enough memory'
  if (host.usedDiskMib + request.diskMib > host.diskMib) return 'not enough disk'
  return undefined
}

function unfit(host: HostView, { hypervisor }: PlacementRequest): Rejection {
  if (host.hypervisors.some(one => one.probing && (one.name === hypervisor || !hypervisor))) return 'still starting'
  return offered(host, { hypervisor }) ? 'hypervisor lacks a needed feature' : 'hypervisor not offered'
}

/** Returns whether the VM would fit on the host if it were empty. */
export function fitsEmpty(host: HostView, request: PlacementRequest): boolean {
  return request.vcpus <= host.vcpus && request.memoryMib <= host.memoryMib && request.diskMib <= host.diskMib
}

/**
 * Returns the score of a host; higher is better. A preferred label counts more than another replica on the host, which
 * counts more than any load. The rest of the score is the host's free share after the placement, or its used share
 * with the policy `bin-pack`.
 */
function rate(host: HostView, request: PlacementRequest, policy: Policy): number {
  const share = Math.max(
    (host.usedVcpus + request.vcpus) / host.vcpus,
    (host.usedMemoryMib + request.memoryMib) / host.memoryMib,
    (host.usedDiskMib + request.diskMib) / host.diskMib,
  )
  return (
    (policy === 'spread' ? 1 - share : share) -
    (request.siblings.has(host.id) ? 10 : 0) +
    20 * liking(host, request.wishes)
  )
}

/** Explains to users in one sentence why no host was found. */
export function explain(placement: Placement): string {
  if (placement.rejected.length === 0) return 'No host has joined yet. Start an agent, or see: mote host add --help'
  return `No host is suitable now (${reasonsOf(placement)}).`
}

function reasonsOf({ rejected, required }: Placement): string {
  const counts = new Map<Rejection, number>()
  for (const { reason } of rejected) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  const shown = (reason: Rejection) => (reason === 'lacks a required label' ? `not ${required}` : reason)
  return [...counts].map(([reason, n]) => `${n} ${n === 1 ? 'host' : 'hosts'}: ${shown(reason)}`).join('; ')
}

/** Explains why the VM will never fit, and what to change. @param placement computed as if all hosts were empty */
export function explainNever(placement: Placement, request: PlacementRequest, hosts: readonly HostView[] = []): string {
  const { hypervisor, vcpus, memoryMib, diskMib } = request
  const lacks = (reason: Rejection) => placement.rejected.every(one => one.reason === reason)
  if (hypervisor && lacks('hypervisor not offered'))
    return `No host offers ${hypervisor === 'vm' ? 'virtual machines' : hypervisor}. Leave hypervisor out, or name another one`
  if (request.wishes && lacks('lacks a required label')) return unfulfilled(hosts, request.wishes)
  const size = `${vcpus} ${vcpus === 1 ? 'vCPU' : 'vCPUs'}, ${memoryMib} MiB of memory and ${diskMib} MiB of disk`
  return `No host is large enough for ${size} (${reasonsOf(placement)})`
}
