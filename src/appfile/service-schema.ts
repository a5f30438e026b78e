/** The part of the schema of `mote.toml` for TCP services. */
import { Type } from 'typebox'
import { table } from './canary-schema.ts'

const Service = table(
  {
    port: Type.Integer({
      minimum: 1,
      maximum: 65_535,
      description: 'TCP port that the program listens on. `mote services list` shows the public port.',
      examples: [1883],
    }),
    tls: Type.Optional(
      Type.Enum(['none', 'sni'], {
        default: 'none',
        description:
          'How clients connect to the service. `none`: the service has its own public port, and bytes are forwarded unchanged. `sni`: clients connect with TLS to the shared port of the installation; the server name (a hostname of the app) selects the service, and the gateway decrypts. An app can have at most one service with `sni`.',
      }),
    ),
  },
  'A TCP service forwards TCP connections from outside to a port of the app.',
)

export const Services = Type.Record(Type.String({ pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' }), Service, {
  additionalProperties: false,
  maxProperties: 10,
  'x-mote-names': 'lower-case letters, digits and dashes, starting and ending with a letter or a digit',
  description:
    'TCP services of the app. If this table is present, services that are not in the file are deleted; without it, the services of the app stay unchanged.',
})
