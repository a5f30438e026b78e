/** The part of the schema of `mote.toml` that is about programs that end. */
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
