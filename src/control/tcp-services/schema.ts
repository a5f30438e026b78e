/** Operations on the TCP services of apps. */
import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  acknowledgement,
  dateTime,
  labelName,
  list,
  maybe,
  nullable,
  oneOf,
  resource,
  text,
  uint16,
} from '../http/types.ts'

const port = uint16({ minimum: 1, description: 'TCP port that the program listens on in the VM.', examples: [5432] })

const tls = oneOf(['none', 'sni'], {
  description:
    'How clients connect to the service. `none`: the service has its own public port, and bytes are forwarded unchanged. `sni`: clients connect with TLS to the shared port of the installation; the server name (a hostname of the app) selects the service, and the gateway decrypts with its certificate for that name.',
  examples: ['none'],
})

export const TcpService = resource(
  'TcpService',
  {
    name: text({ description: 'Name of the service; unique in the app.', examples: ['mqtt'] }),
    port,
    tls,
    public_port: nullable(
      uint16({
        description:
          'Public port, the same on every gateway. For a service with `tls` `none`, the port never changes; with `sni`, it is the shared port, or null if the installation no longer has one.',
        examples: [20_017],
      }),
    ),
    address: text({
      description:
        'Address to which clients connect: hostname of the app and public port. With `sni`, verified domains of the app can be used as well.',
      examples: ['shop-acme.apps.example.com:20017'],
    }),
    created_at: dateTime({ description: 'When the service was created.' }),
  },
  { description: 'Forwarding of TCP connections from outside to a port of an app.' },
)
export type TcpService = Static<typeof TcpService>

const base = '/v1/apps/{app_name}/services'
const ofApp = { app_name: text({ description: 'Name of the app.', examples: ['shop'] }) }
const ofService = Type.Object({
  ...ofApp,
  service_name: labelName({ description: 'Name of the service; unique in the app.', examples: ['mqtt'] }),
})
const shared = { tag: 'TCP services', auth: 'bearer', project: 'selected', scope: 'write', addition: true } as const

export const tcpServiceOperations = operations({
  listTcpServices: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: base,
    summary: 'List the TCP services of an app',
    description: 'Lists the TCP services of the app by name, each with its public port.',
    params: Type.Object(ofApp),
    list: { order: ['name'], filters: ['name'] },
    items: [
      {
        id: 'getTcpService',
        path: `${base}/{service_name}`,
        by: 'name',
        summary: 'Get a TCP service',
        description: 'Returns one TCP service with its public address.',
      },
    ],
    answer: list(TcpService),
  },
  putTcpService: {
    ...shared,
    throttle: 'create',
    method: 'PUT',
    path: `${base}/{service_name}`,
    summary: 'Create or change a TCP service',
    description:
      'Forwards TCP connections to the given port of the VMs of the app. By default, every gateway listens on a public port of the service: a new service gets a free port from the range of the installation, and keeps it when `port` changes. With `tls: "sni"`, clients connect to the shared TLS port, with a hostname of the app as TLS server name. A connection starts an app that is scaled to zero. An app can have at most 10 services, of which one may use `sni`. Responds with 409 if the installation has no ports of that kind, if no port is free, or if the app is a worker.',
    params: ofService,
    body: resource(
      'PutTcpServiceRequest',
      {
        port,
        tls: maybe(tls, {
          description:
            'How clients connect to the service, as in `TcpService`. Default: unchanged; `none` for a new service.',
        }),
      },
      { description: 'Port of a TCP service in the VM, and how clients connect to it.' },
    ),
    answer: TcpService,
    fails: [409],
  },
  deleteTcpService: {
    ...shared,
    method: 'DELETE',
    path: `${base}/{service_name}`,
    summary: 'Delete a TCP service',
    description: 'Closes the public port and its connections. The port may then be assigned to another service.',
    params: ofService,
    answer: acknowledgement('deleted'),
  },
})
