import type { Static } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, resource, stringMap, text } from '../http/types.ts'

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
  { description: 'State of the control plane and of the services it depends on.' },
)
export type Health = Static<typeof Health>

const HealthEvent = resource(
  'HealthEvent',
  { at: dateTime({ description: 'When the state was read.' }), ...Health.properties },
  { description: 'The health at one moment.' },
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
