import type { Static } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, resource, stringMap, text } from '../http/types.ts'

export const Health = resource(
  'Health',
  {
    status: text({
      description: '`ok`, or `unavailable` if a service is down that is needed for changes.',
      examples: ['ok'],
    }),
    version: text({ description: 'Version of Mote, which differs from the version of the API.', examples: ['0.1.0'] }),
    services: stringMap({
      description: 'State of each service that the control plane depends on, by name: `ok` or `unavailable`.',
      examples: [{ postgres: 'ok', bus: 'ok' }],
    }),
  },
  { description: 'Health of the control plane and of the services that it depends on.' },
)
export type Health = Static<typeof Health>

const HealthEvent = resource(
  'HealthEvent',
  { at: dateTime({ description: 'When the health was read.' }), ...Health.properties },
  { description: 'Health of the control plane and its services at the time `at`.' },
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
      'Responds with 200 as long as the process runs; `status` and `services` report what is down. For load balancers use `/v1/health/ready`, which fails in that case.',
    ...shared,
    answer: Health,
  },
  getLiveness: {
    method: 'GET',
    path: '/v1/health/live',
    summary: 'Check that the process runs',
    description:
      'Returns `ok` without checking any other service. Meant for a supervisor, which restarts the process if this request fails.',
    ...shared,
    answer: 'text',
  },
  getReadiness: {
    method: 'GET',
    path: '/v1/health/ready',
    summary: 'Check that requests can be served',
    description:
      'Returns 503, with `services` in the error, while a service is down that requests need. Meant for a load balancer, which sends the instance no requests during that time.',
    ...shared,
    answer: Health,
  },
  streamHealth: {
    method: 'GET',
    path: '/v1/health/stream',
    summary: 'Follow the health of the service',
    description: 'Sends the health as `snapshot`, then as `health` whenever it changes.',
    ...shared,
    answer: 'stream',
    events: { snapshot: HealthEvent, health: HealthEvent },
  },
})
