/** Every operation, parameter and member of the document has a description and an example. */
import { describe, expect, it } from 'vitest'
import { Compile } from 'typebox/schema'
import { appOperations } from '../apps/schema.ts'
import { auditOperations } from '../audit/schema.ts'
import { authOperations } from '../auth/schema.ts'
import { billingOperations } from '../billing/schema.ts'
import { buildOperations } from '../builds/schema.ts'
import { databaseOperations, upcallOperations } from '../databases/schema.ts'
import { deploymentOperations } from '../deployments/schema.ts'
import { domainOperations } from '../domains/schema.ts'
import { hostOperations } from '../fleet/schema.ts'
import { contractOperations, healthOperations } from '../health/schema.ts'
import { networkOperations } from '../network/schema.ts'
import { notificationOperations } from '../notifications/schema.ts'
import { projectOperations } from '../projects/schema.ts'
import { scmOperations } from '../scm/schema.ts'
import { usageOperations } from '../usage/schema.ts'
import { vmOperations } from '../vms/schema.ts'
import { volumeOperations } from '../volumes/schema.ts'
import { webhookOperations } from '../webhooks/schema.ts'
import { allOperations } from './catalogue.ts'
import { missingWords } from '../../../test/support/document-words.ts'
import { exampleOf } from './example.ts'
import { buildOpenApi } from './openapi.ts'
import type { OperationTable } from './operation.ts'
import { resource, text, uuid } from './types.ts'

const folders: Readonly<Record<string, OperationTable>> = {
  apps: appOperations,
  audit: auditOperations,
  auth: authOperations,
  billing: billingOperations,
  builds: buildOperations,
  contract: contractOperations,
  databases: databaseOperations,
  deployments: deploymentOperations,
  domains: domainOperations,
  fleet: hostOperations,
  health: healthOperations,
  network: networkOperations,
  notifications: notificationOperations,
  projects: projectOperations,
  scm: scmOperations,
  upcalls: upcallOperations,
  usage: usageOperations,
  vms: vmOperations,
  volumes: volumeOperations,
  webhooks: webhookOperations,
}

/** Folders whose descriptions and examples are still to be written. */
const withoutWords: ReadonlySet<string> = new Set([
  'audit',
  'auth',
  'billing',
  // Its streams send notifications, whose words are among those.
  'deployments',
  'domains',
  'fleet',
  'network',
  'notifications',
  'projects',
  'scm',
  'usage',
  'webhooks',
])

describe('the document', () => {
  it('has the operations of every folder', () => {
    const ids = Object.values(folders).flatMap(table => Object.keys(table))
    expect(ids.toSorted()).toEqual(Object.keys(allOperations).toSorted())
  })

  const written = Object.keys(folders).filter(folder => !withoutWords.has(folder))
  it.each(written)('describes everything in %s, with an example', folder => {
    expect(missingWords(buildOpenApi(folders[folder] ?? {}))).toEqual([])
  })

  it('names what is not described', () => {
    const answer = resource('Bare', { id: uuid({ description: 'Its id.' }), name: text() })
    const { description: _, ...listApps } = appOperations.listApps
    const getBare = { ...listApps, summary: 'One', path: '/v1/bare', answer }
    expect(missingWords(buildOpenApi({ getBare }))).toEqual(
      expect.arrayContaining(['GET /v1/bare: description', 'Bare.name: description', 'Bare.name: example']),
    )
  })
})

describe('a composed example', () => {
  const schemas = Object.entries(allOperations).flatMap(([id, { answer, body }]) => [
    ...(body ? [[`${id} body`, body] as const] : []),
    ...(typeof answer === 'string' ? [] : [[`${id} answer`, answer] as const]),
  ])

  it.each(schemas)('of the %s is valid', (_, schema) => {
    const example = exampleOf(schema)
    const folder = Compile(schema)
    if (example !== undefined) expect(folder.Errors(example)[1]).toEqual([])
  })

  it('takes the first example of each member', () => {
    const schema = resource('Pair', { id: uuid(), name: text({ examples: ['left', 'right'] }) })
    expect(exampleOf(schema)).toEqual({ id: '0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10', name: 'left' })
  })
})
