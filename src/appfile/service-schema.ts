/** The part of the schema of `mote.toml` for TCP services. */
import { Type } from 'typebox'
import { table } from './canary-schema.ts'

const Service = table(
  {
    port: Type.Integer({
      minimum: 1,
      maximum: 65_535,
      description: 'TCP port that the program listens on. `mote services list` shows the public one.',
      examples: [1883],
    }),
    tls: Type.Optional(
      Type.Enum(['none', 'sni'], {
        default: 'none',
        description:
          '`none`: the service has its own public port, and the gateway does not change the bytes. `sni`: clients connect to the shared TLS port of the installation; the TLS server name, a hostname of the app, selects the service, and the gateway decrypts. An app has at most one such service.',
      }),
    ),
  },
  'A way for TCP connections from outside to a port of the app.',
)

export const Services = Type.Record(Type.String({ pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' }), Service, {
  additionalProperties: false,
  maxProperties: 10,
  'x-mote-names': 'lower-case letters, digits and dashes, starting and ending with a letter or a digit',
  description:
    'TCP services. With this table, services that are not in the file are deleted; without it, all services stay as they are.',
})
