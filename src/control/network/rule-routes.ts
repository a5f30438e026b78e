import { newId, isUuid } from '../../lib/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { publishEvent } from '../events/index.ts'
import { invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { pokeVm } from '../vms/index.ts'
import { checkRule, mostRules, nextPriority } from './rules.ts'
import type { networkOperations } from './schema.ts'
import * as store from './store.ts'
import { ruleView } from './view.ts'

type RuleOperations = Pick<typeof networkOperations, 'listSecurityRules' | 'createSecurityRule' | 'deleteSecurityRule'>

export const ruleHandlers = (deps: Pick<Deps, 'db'>): Handlers<RuleOperations> => ({
  listSecurityRules: {
    read: async ({ project, params }) => {
      const app = await store.app(deps.db, project.id, params.app_name)
      if (!app) throw notFound()
      const [rules, observed] = await Promise.all([store.rules(deps.db, app.id), store.firewalls(deps.db, app.id)])
      return rules.map(rule => ruleView(rule, app.version, observed))
    },
  },

  createSecurityRule: {
    write: async call => {
      const shape = checkRule(call.body)
      return async tx => {
        const app = await store.lock(tx, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        const { count, last } = await store.extentOf(tx, app.id)
        if (count >= mostRules)
          throw invalidState(`An app can have at most ${mostRules} rules. Delete one first, or use wider port ranges.`)
        const priority = shape.priority ?? nextPriority(last)
        const rule = await store.insert(tx, newId(), call.project.id, app.id, { ...shape, priority })
        const version = await changeFirewall(tx, app.id)
        const change = { rule_id: rule.id, app_name: app.name, version }
        publishEvent(tx, {
          projectId: call.project.id,
          kind: 'security_rule.created',
          appId: app.id,
          data: change,
        })
        call.audit({
          action: 'security_rule.create',
          resourceType: 'security_rule',
          resourceId: rule.id,
          details: { app: app.name, ...shape, priority },
        })
        return ruleView(rule, version, await store.firewalls(tx, app.id))
      }
    },
  },

  deleteSecurityRule: {
    write: async call => async tx => {
      const { app_name: name, rule_id: id } = call.params
      const app = await store.lock(tx, call.project.id, name)
      if (!app || !isUuid(id) || !(await store.remove(tx, app.id, id))) throw notFound()
      const version = await changeFirewall(tx, app.id)
      const change = { rule_id: id, app_name: app.name, version }
      publishEvent(tx, { projectId: call.project.id, kind: 'security_rule.deleted', appId: app.id, data: change })
      call.audit({
        action: 'security_rule.delete',
        resourceType: 'security_rule',
        resourceId: id,
        details: { app: app.name },
      })
      return { status: 'deleted' as const }
    },
  },
})

/**
 * Raises the version of the app's security rules and pokes the workflows of its VMs, which send the rules to the hosts.
 * Returns the new version.
 */
export async function changeFirewall(tx: Tx, appId: string): Promise<number> {
  const { version, vmIds } = await store.raise(tx, appId)
  for (const id of vmIds) await pokeVm(tx, id)
  return version
}
