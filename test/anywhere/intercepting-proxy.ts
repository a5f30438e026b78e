/** A TLS-intercepting proxy as in a company network: it signs certificates with its own certificate authority. */
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, createSecureContext, type SecureContext, TLSSocket } from 'node:tls'
import { run } from '../../src/lib/exec.ts'

export interface InterceptingProxy extends AsyncDisposable {
  readonly port: number
  /** The PEM certificate of the proxy's certificate authority, which clients have to trust. */
  readonly certificate: string
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

/** Starts the proxy. @param address of this machine to listen on */
export async function interceptingProxy(address: string): Promise<InterceptingProxy> {
  await using undo = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'mote-anywhere-proxy-'))
  undo.defer(() => rm(dir, { recursive: true, force: true }))
  const [certificate, key] = [join(dir, 'ca.crt'), join(dir, 'ca.key')]
  const subject = ['-subj', '/CN=Mote test authority', '-days', '30']
  await run('openssl', ['req', '-x509', ...newKey, ...subject, '-keyout', key, '-out', certificate])
  const contexts = new Map<string, Promise<SecureContext>>()
  const contextOf = (host: string) => {
    const found = contexts.get(host) ?? contextFor(host, dir)
    contexts.set(host, found)
    return found
  }
  const sockets = new Set<Socket>()
  const server = createServer(forward)
    .on('connection', socket => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
    })
    .on('connect', ({ url = '' }: IncomingMessage, socket: Socket) => {
      const [host = '', port = '443'] = url.split(':')
      socket.on('error', () => socket.destroy())
      contextOf(host).then(
        context => intercept(socket, context, host, Number(port)),
        () => socket.destroy(),
      )
    })
    .listen(0, address)
  undo.defer(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const pem = await readFile(certificate, 'utf8')
  const all = undo.move()
  return { port, certificate: pem, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

async function contextFor(host: string, dir: string): Promise<SecureContext> {
  const [certificate, key] = [join(dir, `${host}.crt`), join(dir, `${host}.key`)]
  const signed = ['-CA', join(dir, 'ca.crt'), '-CAkey', join(dir, 'ca.key'), '-days', '7']
  const names = ['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`]
  await run('openssl', ['req', '-x509', ...newKey, ...signed, ...names, '-keyout', key, '-out', certificate])
  return createSecureContext({ cert: await readFile(certificate), key: await readFile(key) })
}

function intercept(socket: Socket, secureContext: SecureContext, host: string, port: number): void {
  socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
  const inner = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] })
  const outer = connect({ host, port, servername: host, ALPNProtocols: ['http/1.1'] })
  inner.on('error', () => outer.destroy())
  outer.on('error', () => inner.destroy())
  inner.pipe(outer).pipe(inner)
}

/** Forwards a plain HTTP request, such as those of apt for packages. */
function forward(from: IncomingMessage, to: ServerResponse): void {
  const target = URL.parse(from.url ?? '')
  if (target === null) return void to.writeHead(400).end()
  const onward = request(target, { method: from.method ?? 'GET', headers: from.headers }, answer => {
    to.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(to)
  })
  onward.on('error', () => to.destroy())
  from.pipe(onward)
}
