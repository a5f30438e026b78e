/** Validates security rules, and decides whether they are in effect in all VMs. Pure. */
import type { FirewallObserved } from '../../contract/network.ts'
import { formatCidr, parseCidr } from '../../lib/cidr.ts'
import { invalidField } from '../http/errors.ts'
import type { RuleShape } from './store.ts'

/** Maximum number of security rules per app, because each rule slows down every packet of the app's VMs. */
export const mostRules = 100
const lastPort = 65_535
/** Difference between the priorities of two new rules, so that a rule can be inserted between them later. */
const priorityStep = 10

export interface RuleRequest {
  readonly protocol: RuleShape['protocol']
  readonly port_start: number
  readonly port_end: number
  readonly action: RuleShape['action']
  readonly direction?: RuleShape['direction'] | null
  readonly cidr?: string | null
  readonly priority?: number | null
}

/**
 * Checks a security rule and fills in defaults. A rule without a `priority` in the result goes after the existing ones.
 * @throws ApiError 400 that names the invalid field
 */
export function checkRule(request: RuleRequest): Omit<RuleShape, 'priority'> & { readonly priority?: number } {
  const { protocol, port_start: portStart, port_end: portEnd } = request
  if (portEnd > lastPort) throw invalidField('port_end', `must be at most ${lastPort}`)
  if (portStart > portEnd) throw invalidField('port_start', `must not be greater than port_end (${portEnd})`)
  const all = portStart === 0 && (portEnd === 0 || portEnd === lastPort)
  if (protocol === 'icmp' && !all)
    throw invalidField('port_start', 'icmp has no ports; use 0 for port_start and port_end')
  if ((protocol === 'tcp' || protocol === 'udp') && portEnd === 0)
    throw invalidField('port_end', `port 0 is not valid; use another port, or 0 to ${lastPort} for all`)
  return {
    protocol,
    portStart,
    portEnd,
    action: request.action,
    direction: request.direction ?? 'inbound',
    cidr: checkCidr(request.cidr ?? null),
    ...(request.priority == null ? {} : { priority: request.priority }),
  }
}

function checkCidr(text: string | null): string | null {
  if (text === null || text === '') return null
  const cidr = parseCidr(text)
  if (!cidr) throw invalidField('cidr', 'must be a network such as 10.0.0.0/8 or 2001:db8::/32, or one address')
  return formatCidr(cidr)
}

/** Returns the priority of a rule that goes after all others. @param last highest existing priority */
export const nextPriority = (last: number | null): number =>
  last === null ? 100 : Math.min(last + priorityStep, lastPort)

export interface VmFirewall {
  readonly version: number
  readonly observed: FirewallObserved | null
}

/** Returns whether all VMs of an app enforce this version of its rules, and if not, why. */
export function enforcement(
  version: number,
  vms: readonly VmFirewall['observed'][],
): { enforced: boolean; reason: string | null } {
  if (vms.length === 0) return { enforced: false, reason: 'the app has no VM; the rules apply when one starts' }
  const cannot = vms.find(observed => observed?.state === 'unenforced')
  if (cannot) return { enforced: false, reason: cannot.detail }
  const failed = vms.find(observed => observed?.state === 'failed')
  if (failed) return { enforced: false, reason: `a host could not load the rules and will retry: ${failed.detail}` }
  const late = vms.filter(observed => !observed || observed.version < version).length
  if (late > 0) return { enforced: false, reason: `not yet enforced for ${late} of ${vms.length} VMs` }
  return { enforced: true, reason: null }
}
