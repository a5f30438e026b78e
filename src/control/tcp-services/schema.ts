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
    'How clients reach the service: `none` gives it a port of its own, and bytes are forwarded unchanged. `sni` uses the shared port of the installation: clients connect with TLS, the server name (a hostname of the app) selects the service, and the gateway decrypts with its certificate of that name.',
  examples: ['none'],
})

export const TcpService = resource(
  'TcpService',
  {
    name: text({ description: 'Name of the service; unique in its app.', examples: ['mqtt'] }),
    port,
    tls,
    public_port: nullable(
      uint16({
        description:
          'Port on every gateway. That of a service without TLS stays as long as the service. Null if the installation has no port for services with TLS any more.',
        examples: [20_017],
      }),
    ),
    address: text({
      description:
        'Where clients connect: hostname of the app and public port. With `sni`, verified domains of the app work as well.',
      examples: ['shop-acme.apps.example.com:20017'],
    }),
    created_at: dateTime({ description: 'When the service was created.' }),
  },
  { description: 'Way for TCP connections from outside to a port of an app.' },
)
export type TcpService = Static<typeof TcpService>

const base = '/v1/apps/{app_name}/services'
const ofApp = { app_name: text({ description: 'Name of the app.', examples: ['shop'] }) }
const ofService = Type.Object({
  ...ofApp,
  service_name: labelName({ description: 'Name of the service; unique in its app.', examples: ['mqtt'] }),
})
const shared = { tag: 'TCP services', auth: 'bearer', project: 'selected', scope: 'write', addition: true } as const

export const tcpServiceOperations = operations({
  listTcpServices: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: base,
    summary: 'List the TCP services of an app',
    description: 'Lists the public ports that lead to ports of the app, by name.',
    params: Type.Object(ofApp),
    list: { order: ['name'], filters: ['name'] },
    items: [
      {
        id: 'getTcpService',
        path: `${base}/{service_name}`,
        by: 'name',
        summary: 'Get a TCP service',
        description: 'Returns one TCP service with its address.',
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
      'Forwards TCP connections to the given port of the VMs. By default every gateway listens on a public port of the service. With `tls: "sni"` clients connect to the shared TLS port, and their TLS server name is a hostname of the app. A new service gets a free port of the range of the installation, and keeps it when `port` changes. A connection wakes an app that is scaled to zero. An app has at most 10 services, one of them with `sni`. The answer is 409 if the installation has no ports of that kind, no port is free, or the app is a worker.',
    params: ofService,
    body: resource(
      'PutTcpServiceRequest',
      { port, tls: maybe(tls, { description: 'As in the answer. Without it, that of the service, or `none`.' }) },
      { description: 'Port of a TCP service in the VM, and how clients reach it.' },
    ),
    answer: TcpService,
    fails: [409],
  },
  deleteTcpService: {
    ...shared,
    method: 'DELETE',
    path: `${base}/{service_name}`,
    summary: 'Delete a TCP service',
    description: 'Closes the public port and its connections. The port may be given to another service.',
    params: ofService,
    answer: acknowledgement('deleted'),
  },
})
