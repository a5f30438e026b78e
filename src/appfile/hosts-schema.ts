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
      labels(
        'Labels that a host should have: of the hosts with capacity, those with more of these labels are preferred.',
        { zone: 'eu-1' },
      ),
    ),
  },
  'Which hosts may run the VMs, by host label. `mote apps labels` lists the available labels. Without this table, VMs run on any host.',
)
