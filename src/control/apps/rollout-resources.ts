/** Schemas for how versions replace each other, and what happens when programs end. */
import { double, int32, maybe, nullable, oneOf, resource } from '../http/types.ts'
import { restartPolicies, strategies } from '../deployments/index.ts'

/** How a new version replaces the active one. */
export const strategy = oneOf(strategies, {
  description:
    '`rolling`: the VMs of a new version start beside the old ones. `one-at-a-time`: an old VM ends before a new one starts, so never more VMs run than declared.',
})

const canarySeconds = { minimum: 10, maximum: 86_400, description: 'How long it gets them.', examples: [300] }
const canaryShare = (minimum: number, description: string) =>
  double({ minimum, maximum: 99, description, examples: [10] })
const canaryErrors = {
  minimum: 0,
  maximum: 100,
  description: 'It fails if a larger percentage of its requests ends with 5xx or without an answer.',
  examples: [5],
}
const canaryRequests = {
  minimum: 1,
  maximum: 1_000_000,
  description: 'With fewer requests, errors are not compared.',
  examples: [20],
}

export const AppCanary = resource(
  'AppCanary',
  {
    percent: canaryShare(1, 'Percentage of the requests that a new version gets.'),
    seconds: int32(canarySeconds),
    max_error_percent: double(canaryErrors),
    min_requests: int32(canaryRequests),
  },
  { description: 'How new versions are tried before they get all requests.' },
)

export const AppCanaryRequest = resource('AppCanaryRequest', {
  percent: canaryShare(0, 'Percentage of the requests that a new version gets; 0: no canary.'),
  seconds: maybe(int32({ ...canarySeconds, description: `${canarySeconds.description} Default: 300.` })),
  max_error_percent: maybe(double({ ...canaryErrors, description: `${canaryErrors.description} Default: 5.` })),
  min_requests: maybe(int32({ ...canaryRequests, description: `${canaryRequests.description} Default: 20.` })),
})

const restartPolicy = {
  description:
    'When the program of a VM is started again after it has ended: after every exit, after an exit with another code than 0, or never.',
}
const maxRestarts = { minimum: 0, maximum: 100, examples: [3] }

export const AppRestart = resource(
  'AppRestart',
  {
    policy: oneOf(restartPolicies, restartPolicy),
    max_restarts: nullable(
      int32({
        ...maxRestarts,
        description: 'Restarts until the VM counts as crashed; null: as the installation sets.',
      }),
    ),
  },
  { description: 'What happens when the program of a VM ends.' },
)

export const AppRestartRequest = resource('AppRestartRequest', {
  policy: oneOf(restartPolicies, restartPolicy),
  max_restarts: maybe(
    int32({
      ...maxRestarts,
      description: 'Restarts until the VM counts as crashed. Default: as the installation sets.',
    }),
  ),
})
