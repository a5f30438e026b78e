import type { FirewallObserved } from '../../contract/network.ts'
import { enforcement } from './rules.ts'
import type { SecurityRule } from './resources.ts'
import type { Rule } from './store.ts'

/**
 * Converts a security rule to the form of the API.
 * @param version current version of the app's rules;
 * @param observed reports of the hosts about the app's VMs
 */
export function ruleView(rule: Rule, version: number, observed: readonly (FirewallObserved | null)[]): SecurityRule {
  return {
    id: rule.id,
    app_id: rule.appId,
    protocol: rule.protocol,
    port_start: rule.portStart,
    port_end: rule.portEnd,
    action: rule.action,
    priority: rule.priority,
    direction: rule.direction,
    cidr: rule.cidr,
    created_at: rule.createdAt.toISOString(),
    updated_at: rule.updatedAt.toISOString(),
    ...enforcement(version, observed),
  }
}
