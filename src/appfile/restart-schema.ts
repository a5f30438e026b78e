/** The part of the schema of `mote.toml` for restarts of programs and for the strategy of rollouts. */
import { Type } from 'typebox'
import { maybe } from './canary-schema.ts'

export const restarts = {
  restart: maybe(
    Type.Enum(['always', 'on-failure', 'never'], {
      default: 'always',
      description:
        'When the program is started again after it has ended: after every exit, after an exit with another code than 0, or never.',
    }),
  ),
  max_restarts: maybe(
    Type.Integer({
      minimum: 0,
      maximum: 100,
      description: 'Restarts until the VM counts as crashed. As the installation sets if absent.',
      examples: [3],
    }),
  ),
}

export const strategy = Type.Enum(['rolling', 'one-at-a-time'], {
  default: 'rolling',
  description:
    '`rolling` starts the VMs of a new version beside the old ones. `one-at-a-time` ends an old VM before it starts a new one, so never more VMs run than `replicas` says. Not with `canary`.',
})
