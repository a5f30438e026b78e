import type { Static } from 'typebox'
import { operations } from '../http/operation.ts'
import { resource, stringMap, text } from '../http/types.ts'

export const Health = resource('Health', {
  status: text({ description: '`ok`, or `unavailable` when a service that writes need is down.' }),
  version: text({ description: 'Version of this product.' }),
  services: stringMap({ description: 'State of each service this program needs: `ok` or `unavailable`.' }),
})
export type Health = Static<typeof Health>

const shared = {
  tag: 'System',
  auth: 'none',
  scope: 'read',
  project: 'none',
  throttle: 'unlimited',
  proof: 'none: public',
} as const

export const healthOperations = operations({
  getHealth: {
    method: 'GET',
    path: '/v1/health',
    summary: 'State of the service and of what it depends on',
    ...shared,
    answer: Health,
  },
  getLiveness: {
    method: 'GET',
    path: '/v1/health/live',
    summary: 'Answers as long as the process runs',
    ...shared,
    answer: 'text',
  },
  getReadiness: {
    method: 'GET',
    path: '/v1/health/ready',
    summary: 'Whether requests can be served; 503 when a dependency is down',
    ...shared,
    answer: Health,
  },
  streamHealth: {
    method: 'GET',
    path: '/v1/health/stream',
    summary: 'Health as it changes: `snapshot`, then `health` events',
    ...shared,
    answer: 'stream',
  },
})

export const contractOperations = operations({
  getOpenApi: {
    method: 'GET',
    path: '/v1/api-docs/openapi.json',
    summary: 'This contract, as an OpenAPI 3.1 document',
    ...shared,
    answer: 'free',
  },
  getExplorer: {
    method: 'GET',
    path: '/v1/docs',
    summary: 'Interactive explorer of this contract',
    ...shared,
    answer: 'html',
  },
})
