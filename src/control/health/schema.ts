import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, list, resource, stringMap, text } from '../http/types.ts'

export const Health = resource(
  'Health',
  {
    status: text({
      description: '`ok`, or `unavailable` when a service that writes need is down.',
      examples: ['ok'],
    }),
    version: text({ description: 'Version of the product, not of this contract.', examples: ['0.1.0'] }),
    services: stringMap({
      description: 'State of each service that this program needs, by its name: `ok` or `unavailable`.',
      examples: [{ postgres: 'ok', bus: 'ok' }],
    }),
  },
  { description: 'State of the control plane and of what it depends on.' },
)
export type Health = Static<typeof Health>

const HealthEvent = resource(
  'HealthEvent',
  { at: dateTime({ description: 'When it was looked at.' }), ...Health.properties },
  { description: 'The health at one moment.' },
)

const part = (description: string, example: unknown) =>
  Type.Unsafe<Readonly<Record<string, unknown>>>({ type: 'object', description, examples: [example] })

const OpenApiDocument = resource(
  'OpenApiDocument',
  {
    openapi: text({ description: 'Version of OpenAPI.', examples: ['3.1.0'] }),
    info: part('Title, version and introduction of the contract.', { title: 'Mote', version: '0.5.4' }),
    servers: list(part('A base of the paths.', { url: '/v1' }), { description: 'Bases of the paths.' }),
    tags: list(part('A group of operations.', { name: 'Apps' }), { description: 'Groups of operations.' }),
    paths: part('The operations by path and method.', { '/v1/health': { get: { operationId: 'getHealth' } } }),
    components: part('Schemas, headers and answers that operations share.', { schemas: {} }),
  },
  { description: 'A document by OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0).' },
)

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
    summary: 'Get the health of the service',
    description:
      'Answers 200 as long as the program runs, and says in `status` and `services` what is down. Load balancers use `/v1/health/ready`, which fails instead.',
    ...shared,
    answer: Health,
  },
  getLiveness: {
    method: 'GET',
    path: '/v1/health/live',
    summary: 'Check that the process runs',
    description:
      'Answers `ok` without looking at any other service. A supervisor restarts the process when this fails.',
    ...shared,
    answer: 'text',
  },
  getReadiness: {
    method: 'GET',
    path: '/v1/health/ready',
    summary: 'Check that requests can be served',
    description:
      'Answers 503, with `services` in the error, while a service that requests need is down. A load balancer takes the instance out meanwhile.',
    ...shared,
    answer: Health,
  },
  streamHealth: {
    method: 'GET',
    path: '/v1/health/stream',
    summary: 'Follow the health of the service',
    description: 'Sends the health as `snapshot`, and as `health` whenever it changes.',
    ...shared,
    answer: 'stream',
    events: { snapshot: HealthEvent, health: HealthEvent },
  },
})

export const contractOperations = operations({
  getOpenApi: {
    method: 'GET',
    path: '/v1/api-docs/openapi.json',
    summary: 'Get this contract',
    description:
      'Answers the OpenAPI 3.1 document of the operations that this server serves. Generated clients are made from it.',
    ...shared,
    answer: OpenApiDocument,
  },
  getExplorer: {
    method: 'GET',
    path: '/v1/docs',
    summary: 'Open the explorer of this contract',
    description: 'Answers a page that shows every operation and can call it. It loads nothing from other servers.',
    ...shared,
    answer: 'html',
  },
})
