import { randomBytes } from 'node:crypto'
import type { Sql } from '../../db/db.ts'
import { uniqueViolation } from '../../db/errors.ts'
import { pokeSweep } from '../../engine/sweeper.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { invalidState, nameTaken, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { assertAllowed, lockLimits } from '../projects/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { type TxtResolver, lookFor } from './resolver.ts'
import { checkDomainName, mostDomains } from './rules.ts'
import { domainOperations } from './schema.ts'
import * as store from './store.ts'
import { sweepName } from './sweep-name.ts'
import { applyLook } from './verify.ts'
import { domainView } from './view.ts'

interface DomainCall {
  readonly project: { readonly id: string }
  readonly params: { readonly app_name: string; readonly domain: string }
}

/** Finds a domain of the project. @throws ApiError 404 if the project has no such domain */
async function ownDomain(sql: Sql, { project, params }: DomainCall) {
  const app = await store.app(sql, project.id, params.app_name)
  const domain = app && (await store.find(sql, app.id, params.domain.toLowerCase()))
  if (!domain) throw notFound()
  return { app, domain }
}

export const domainFeature = (deps: Pick<Deps, 'db' | 'config' | 'clock'>, resolver: TxtResolver) =>
  feature(domainOperations, {
    listDomains: {
      read: async ({ project, params }) => {
        const app = await store.app(deps.db, project.id, params.app_name)
        if (!app) throw notFound()
        return (await store.list(deps.db, app.id)).map(domain => domainView(domain, app))
      },
    },

    addDomain: {
      write: async call => {
        const name = checkDomainName(call.body.name, reservedOf(deps.config))
        const token = randomBytes(16).toString('hex')
        return async tx => {
          assertAllowed(await lockLimits(tx, call.project.id), 'customDomains')
          const app = await store.lockedApp(tx, call.project.id, call.params.app_name)
          if (!app) throw notFound()
          if (app.kind === 'worker') throw invalidState('A worker gets no requests, so it cannot have a domain.')
          if ((await store.count(tx, app.id)) >= mostDomains)
            throw invalidState(`An app can have at most ${mostDomains} domains. Delete one first.`)
          const domain = { id: newId(), projectId: call.project.id, appId: app.id, name, token }
          const made = await store.insert(tx, domain).catch((cause: unknown) => {
            throw uniqueViolation(cause, 'domain_of_app') ? nameTaken('domain', name) : cause
          })
          await pokeSweep(tx, sweepName)
          const details = { app: app.name, domain: name }
          call.audit({ action: 'domain.add', resourceType: 'domain', resourceId: made.id, details })
          return domainView(made, app)
        }
      },
    },

    verifyDomain: {
      write: async call => {
        const { app, domain } = await ownDomain(deps.db, call)
        const found = await lookFor(resolver, domain)
        return async tx => {
          const after = await applyLook(tx, domain.id, found, deps.clock.now())
          if (!after) throw notFound()
          const details = { app: app.name, domain: domain.name, status: after.state }
          call.audit({ action: 'domain.verify', resourceType: 'domain', resourceId: domain.id, details })
          return domainView(after, app)
        }
      },
    },

    deleteDomain: {
      write: async call => async tx => {
        const { app, domain } = await ownDomain(tx, call)
        await store.remove(tx, domain.id)
        await refreshRoute(tx, app.id)
        const details = { app: app.name, domain: domain.name }
        call.audit({ action: 'domain.delete', resourceType: 'domain', resourceId: domain.id, details })
        return { status: 'deleted' as const }
      },
    },
  })

const reservedOf = ({ domain, publicUrl, gatewayUrl }: Deps['config']) => [
  domain.toLowerCase(),
  new URL(publicUrl).hostname,
  new URL(gatewayUrl).hostname,
]
