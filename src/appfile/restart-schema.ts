/** The part of the schema of `mote.toml` for restarts of programs and for the strategy of rollouts. */
import { Type } from 'typebox'
import { maybe } from './canary-schema.ts'

export const restarts = {
  restart: maybe(
    Type.Enum(['always', 'on-failure', 'never'], {
      default: 'always',
      description:
        'When the program is restarted after it exits. `always`: after every exit. `on-failure`: after an exit code other than 0. `never`: not at all.',
    }),
  ),
  max_restarts: maybe(
    Type.Integer({
      minimum: 0,
      maximum: 100,
      description: 'Number of restarts after which the VM counts as crashed. The default is set by the operator.',
      examples: [3],
    }),
  ),
}

export const strategy = Type.Enum(['rolling', 'one-at-a-time'], {
  default: 'rolling',
  description:
    'How a new version replaces the old one. `rolling`: its VMs start while the old VMs still run. `one-at-a-time`: each old VM is stopped before a new one starts, so that never more than `replicas` VMs run; not allowed together with `canary`.',
})
