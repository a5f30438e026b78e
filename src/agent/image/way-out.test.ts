/** Tests which addresses a malicious registry can make skopeo connect to. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, createServer as createTcp, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { run } from '../../lib/exec.ts'
import { makeCertificate } from '../../../test/support/gateway/tls.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { findManifest } from './layout.ts'
import { findOneWay, oneWayIn } from './oneway.ts'
import { parseImage } from './reference.ts'
import { copyImage, manifestDigest } from './registry.ts'
import { writeSampleImage } from './sample.ts'
import { guardedWay } from './way-out.ts'

const root = process.getuid?.() === 0
const why = !root ? 'needs root' : existsSync('/usr/bin/skopeo') ? '' : 'needs skopeo'
/**
 * The code under test treats this address as public, because it is in no special-purpose range. The test assigns it to
 * this host.
 */
const address = `11.${64 + (process.pid % 64)}.${(process.pid >> 6) % 256}.7`
const name = 'registry.example'

test('a program started by oneway can only connect to the given socket, and oneway passes its exit code on', async () => {
  await using dir = await testDir()
  const { program = '' } = await findOneWay(dir.path)
  const outside = createHttp((_, response) => response.end('outside')).listen(join(dir.path, 'way.sock'))
  const host = createHttp((_, response) => response.end('host')).listen(0, '127.0.0.1')
  await Promise.all([once(outside, 'listening'), once(host, 'listening')])
  using _closing = { [Symbol.dispose]: () => void [outside.close(), host.close()] }
  const { port } = host.address() as AddressInfo
  const ask = `const { get } = require('node:http')
    for (const port of [3128, ${port}])
      get({ port, host: '127.0.0.1' }, response => response.on('data', data => console.log(String(data))))
        .on('error', error => console.log(error.code))`
  const said = await run(program, [join(dir.path, 'way.sock'), '3128', process.execPath, '-e', ask])
  expect(said.trim().split('\n').sort()).toEqual(['ECONNREFUSED', 'outside'])
  await expect(run(program, [join(dir.path, 'way.sock'), '3128', 'false'])).rejects.toMatchObject({ exitCode: 1 })
  await expect(run(program, [join(dir.path, 'way.sock'), '3128', 'absent'])).rejects.toThrow('absent: No such file')
})

test.skipIf(!root)(
  'if started without root, oneway runs its program in a user namespace, if the kernel allows that (needs root)',
  async ({ skip }) => {
    await using dir = await testDir()
    const { program = '' } = await findOneWay(dir.path)
    await run('chmod', ['-R', 'a+rX', dir.path])
    const as = ['--reuid=65534', '--regid=65534', '--clear-groups']
    const may = await run('setpriv', [...as, 'unshare', '--user', '--net', 'true']).then(
      () => true,
      () => false,
    )
    skip(!may, 'this host lets only root create namespaces')
    const command = [program, join(dir.path, 'none'), '3128', 'sh', '-c', 'id -u; ip -o link | wc -l']
    expect((await run('setpriv', [...as, ...command])).split('\n').slice(0, 2)).toEqual(['65534', '1'])
  },
)

describe.skipIf(why !== '')(`a malicious registry ${why}`, () => {
  const stack = new AsyncDisposableStack()
  let dir = ''
  let registry: { port: number; answer: (request: IncomingMessage, response: ServerResponse) => void }
  let host: { port: number; visitors: number }

  const reference = () => {
    const parsed = parseImage(`${name}:${registry.port}/team/hello:v1`)
    if (parsed.kind !== 'registry') throw new Error('BUG: it is in a registry')
    return parsed
  }
  const lookup = async () => [address]
  const listening = async (server: Server, port: number, at: string) => {
    server.listen(port, at)
    await once(server, 'listening')
    stack.defer(() => void server.close())
    return (server.address() as AddressInfo).port
  }

  beforeAll(async () => {
    dir = stack.use(await testDir()).path
    await run('ip', ['address', 'add', `${address}/32`, 'dev', 'lo'])
    stack.defer(() => void execFileSync('ip', ['address', 'del', `${address}/32`, 'dev', 'lo']))
    const { chain: cert, key } = await makeCertificate(dir, 'registry', [name])
    vi.stubEnv('SSL_CERT_FILE', join(dir, 'registry.crt'))
    registry = { port: 0, answer: (_, response) => response.writeHead(404).end() }
    registry.port = await listening(
      createHttps({ cert, key }, (...exchange) => registry.answer(...exchange)),
      0,
      address,
    )
    host = { port: 0, visitors: 0 }
    const inside = createTcp(socket => {
      host.visitors++
      socket.on('error', () => undefined).end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    })
    host.port = await listening(inside, 0, '::')
  })
  afterAll(async () => {
    vi.unstubAllEnvs()
    await stack.disposeAsync()
  })

  /**
   * Ways in which a malicious registry makes skopeo connect to another address: as a token server, or by a redirect.
   */
  const leads = {
    'for a token': (url: string) => (request: IncomingMessage, response: ServerResponse) =>
      void (request.headers.authorization === undefined
        ? response.writeHead(401, { 'www-authenticate': `Bearer realm="${url}/token",service="x"` }).end()
        : response.writeHead(404).end()),
    'by a redirect': (url: string) => (_: IncomingMessage, response: ServerResponse) =>
      void response.writeHead(307, { location: `${url}/v2/team/hello/manifests/v1` }).end(),
  }
  const places = ['127.0.0.1', 'localhost', '[::1]', '127.8.8.8', '[::ffff:127.0.0.1]', '0.0.0.0', address]

  test.each(Object.keys(leads).flatMap(how => places.map(place => [how, place] as const)))(
    'leads skopeo %s to %s, but no connection reaches the host itself',
    async (how, place) => {
      const scheme = place === address ? 'https' : 'http'
      registry.answer = leads[how as keyof typeof leads](`${scheme}://${place}:${host.port}`)
      host.visitors = 0
      const asked = (ways: Parameters<typeof manifestDigest>[3]) =>
        manifestDigest(reference(), [], AbortSignal.timeout(30_000), { lookup, ...ways })
      if (place === address) {
        // Counter-check: skopeo reaches an allowed address in the same way.
        await asked({ oneWay: oneWayIn(dir) }).catch(() => undefined)
        expect(host.visitors).toBeGreaterThan(0)
        return
      }
      await expect(asked({ oneWay: oneWayIn(dir) })).rejects.toThrow()
      expect(host.visitors).toBe(0)
    },
  )

  test("without oneway, skopeo connects to the host's loopback", async () => {
    registry.answer = leads['for a token'](`http://127.0.0.1:${host.port}`)
    host.visitors = 0
    await manifestDigest(reference(), [], AbortSignal.timeout(30_000), { lookup }).catch(() => undefined)
    expect(host.visitors).toBeGreaterThan(0)
  })

  test('an image is pulled through oneway, even on a host behind a proxy', { timeout: 60_000 }, async () => {
    const layout = join(dir, 'hello')
    const digest = await writeSampleImage(layout)
    registry.answer = (request, response) => void serveImage(layout, digest, request, response)
    const ways = { lookup, oneWay: oneWayIn(dir) }
    expect(await manifestDigest(reference(), [], AbortSignal.timeout(30_000), ways)).toBe(digest)
    await copyImage(reference(), join(dir, 'pulled'), [], AbortSignal.timeout(30_000), ways)
    expect((await findManifest(join(dir, 'pulled'), 'image')).manifest.layers).toHaveLength(1)

    await using proxy = await guardedWay(dir, { lookup })
    vi.stubEnv('HTTPS_PROXY', proxy.environment['HTTPS_PROXY'] ?? '')
    try {
      expect(await manifestDigest(reference(), [], AbortSignal.timeout(30_000), ways)).toBe(digest)
      registry.answer = leads['for a token'](`http://127.0.0.1:${host.port}`)
      host.visitors = 0
      await expect(manifestDigest(reference(), [], AbortSignal.timeout(30_000), ways)).rejects.toThrow()
      expect(host.visitors).toBe(0)
    } finally {
      vi.stubEnv('HTTPS_PROXY', '')
    }
  })
})

/** Serves the parts of the distribution API (distribution-spec v1.1) that a pull needs. */
async function serveImage(layout: string, digest: string, request: IncomingMessage, response: ServerResponse) {
  const [, kind, wanted = ''] = /\/(manifests|blobs)\/([^/]+)$/.exec(request.url ?? '') ?? []
  if (kind === undefined) return response.end('{}')
  const [algorithm = '', hash = ''] = (wanted === 'v1' ? digest : wanted).split(':')
  const type = kind === 'manifests' ? 'application/vnd.oci.image.manifest.v1+json' : 'application/octet-stream'
  const data = await readFile(join(layout, 'blobs', algorithm, hash))
  return response
    .writeHead(200, { 'content-type': type, 'content-length': data.length, 'docker-content-digest': wanted })
    .end(request.method === 'HEAD' ? undefined : data)
}
