/** Pushes an image to the installation's registry and pulls it again (OCI distribution specification 1.0). */
import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { buffer } from 'node:stream/consumers'

export interface PushTarget {
  /** Base address of the registry. */
  readonly url: string
  readonly repository: string
  /** Access token with the scope `write`. */
  readonly token: string
  readonly email: string
}

const manifestType = 'application/vnd.oci.image.manifest.v1+json'
const configType = 'application/vnd.oci.image.config.v1+json'
const layerType = 'application/vnd.oci.image.layer.v1.tar'

interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

/** Sends a request on a connection of its own, which the response closes, so that the client keeps no socket open. */
function send(
  method: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  body?: Buffer,
): Promise<Answered> {
  const { promise, resolve, reject } = Promise.withResolvers<Answered>()
  const asked = request(url, { method, headers: { ...headers, connection: 'close' }, agent: false }, answer => {
    buffer(answer).then(
      bytes => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: bytes }),
      reject,
    )
  })
  asked.on('error', reject)
  asked.end(body)
  return promise
}

/**
 * Pushes an image of new random bytes under the tag `latest`, pulls it, and compares. @throws Error if anything fails
 */
export async function pushAndPull(target: PushTarget): Promise<void> {
  const base = `${target.url}/v2/${target.repository}`
  const authorization = `Bearer ${await registryToken(target)}`
  const ask = async (method: string, url: string, accept: number, headers: object = {}, body?: Buffer) => {
    const answer = await send(method, url, { authorization, ...headers }, body)
    if (answer.status !== accept) throw new Error(`${method} ${url}: ${answer.status} ${answer.body.toString()}`)
    return answer
  }
  const pushBlob = async (bytes: Buffer) => {
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
    const begun = await ask('POST', `${base}/blobs/uploads/`, 202)
    const at = new URL(String(begun.headers['location']), target.url)
    at.searchParams.set('digest', digest)
    const length = { 'content-type': 'application/octet-stream', 'content-length': String(bytes.length) }
    await ask('PUT', at.href, 201, length, bytes)
    return { digest, size: bytes.length }
  }
  const layer = randomBytes(64 << 10)
  const pushed = await pushBlob(layer)
  const config = await pushBlob(Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', rootfs: {} })))
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      config: { mediaType: configType, ...config },
      layers: [{ mediaType: layerType, ...pushed }],
    }),
  )
  const typed = { 'content-type': manifestType, 'content-length': String(manifest.length) }
  await ask('PUT', `${base}/manifests/latest`, 201, typed, manifest)
  const pulled = await ask('GET', `${base}/manifests/latest`, 200, { accept: manifestType })
  const { body } = await ask('GET', `${base}/blobs/${pushed.digest}`, 200)
  if (!pulled.body.equals(manifest) || !body.equals(layer)) throw new Error('the registry returned other bytes')
}

/**
 * Gets a token as clients do: from the URL in the registry's WWW-Authenticate header (distribution, spec/auth/token).
 */
async function registryToken({ url, repository, token, email }: PushTarget): Promise<string> {
  const { headers } = await send('GET', `${url}/v2/`, {})
  const challenge = String(headers['www-authenticate'])
  const part = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(challenge)?.[1] ?? ''
  const at = new URL(part('realm'))
  at.searchParams.set('service', part('service'))
  at.searchParams.set('scope', `repository:${repository}:pull,push`)
  const credential = Buffer.from(`${email}:${token}`).toString('base64')
  const { status, body } = await send('GET', at.href, { authorization: `Basic ${credential}` })
  if (status !== 200) throw new Error(`${at.href}: ${status} ${body.toString()}`)
  return String((JSON.parse(body.toString()) as { token?: unknown }).token)
}
