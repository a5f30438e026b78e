/** The part of the schema of `mote.toml` for the choice of hosts. */
import { Type } from 'typebox'
import { labelNamePattern, labelValuePattern, mostLabels } from '../lib/labels.ts'
import { maybe, table } from './canary-schema.ts'

const labels = (description: string, example: Readonly<Record<string, string>>) =>
  Type.Record(Type.String({ pattern: labelNamePattern }), Type.String({ pattern: labelValuePattern }), {
    additionalProperties: false,
    maxProperties: mostLabels,
    'x-mote-names':
      'at most 63 lower-case letters, digits, dots, dashes and underscores, with a letter or a digit at both ends',
    default: {},
    description,
    examples: [example],
  })

export const Hosts = table(
  {
    require: maybe(labels('Labels that a host must have.', { region: 'eu' })),
    prefer: maybe(
      labels('Hosts that have more of these labels are chosen, as long as they have room.', { zone: 'eu-1' }),
    ),
  },
  'Which hosts run the VMs, by their labels. `mote apps labels` lists those that apps can use. Any host if the table is absent.',
)
