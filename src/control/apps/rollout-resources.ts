/** Schemas of how a new version of an app replaces the active one, and of what happens when the app's programs end. */
import { double, int32, maybe, nullable, oneOf, resource } from '../http/types.ts'
import { restartPolicies, strategies } from '../deployments/index.ts'

/** How a new version replaces the active one. */
export const strategy = oneOf(strategies, {
  description:
    'How a new version replaces the old one. `rolling`: its VMs start while the old VMs still run. `one-at-a-time`: each old VM is stopped before a new one starts, so that never more VMs run than declared.',
})

const canarySeconds = {
  minimum: 10,
  maximum: 86_400,
  description: 'Duration of the canary in seconds. After it, a canary that has not failed gets all requests.',
  examples: [300],
}
const canaryShare = (minimum: number, description: string) =>
  double({ minimum, maximum: 99, description, examples: [10] })
const canaryErrors = {
  minimum: 0,
  maximum: 100,
  description:
    'Error threshold in percent: the canary fails, and the previous version keeps serving, if a larger share of its requests ends with a 5xx status or without a response.',
  examples: [5],
}
const canaryRequests = {
  minimum: 1,
  maximum: 1_000_000,
  description:
    'Number of requests that the canary must have received before its error rate is compared with `max_error_percent`.',
  examples: [20],
}

export const AppCanary = resource(
  'AppCanary',
  {
    percent: canaryShare(1, 'Percentage of the requests that a new version gets during the canary.'),
    seconds: int32(canarySeconds),
    max_error_percent: double(canaryErrors),
    min_requests: int32(canaryRequests),
  },
  { description: 'Canary settings: a new version gets a share of the requests before it gets all of them.' },
)

export const AppCanaryRequest = resource('AppCanaryRequest', {
  percent: canaryShare(
    0,
    'Percentage of the requests that a new version gets during the canary; 0 turns canaries off.',
  ),
  seconds: maybe(int32({ ...canarySeconds, description: `${canarySeconds.description} Default: 300.` })),
  max_error_percent: maybe(double({ ...canaryErrors, description: `${canaryErrors.description} Default: 5.` })),
  min_requests: maybe(int32({ ...canaryRequests, description: `${canaryRequests.description} Default: 20.` })),
})

const restartPolicy = {
  description:
    'When the program of a VM is restarted after it exits. `always`: after every exit. `on-failure`: after an exit code other than 0. `never`: not at all.',
}
const maxRestarts = { minimum: 0, maximum: 100, examples: [3] }

export const AppRestart = resource(
  'AppRestart',
  {
    policy: oneOf(restartPolicies, restartPolicy),
    max_restarts: nullable(
      int32({
        ...maxRestarts,
        description: 'Number of restarts after which the VM counts as crashed; null: the default of the installation.',
      }),
    ),
  },
  { description: 'What happens when the program of a VM exits.' },
)

export const AppRestartRequest = resource('AppRestartRequest', {
  policy: oneOf(restartPolicies, restartPolicy),
  max_restarts: maybe(
    int32({
      ...maxRestarts,
      description: 'Number of restarts after which the VM counts as crashed. Default: set by the operator.',
    }),
  ),
})
