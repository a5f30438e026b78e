/**
 * An object storage server with the part of Amazon's S3 API (2006-03-01) that backup programs use. It uses TLS and
 * path-style buckets, and stores objects in memory. Every request must be signed with the configured key (Signature
 * Version 4). Usage:
 * `s3-server.ts <address> <port> <directory with tls.key and tls.crt> <access key> <secret key>`.
 */
import { createHash, createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'

interface Key {
  readonly access: string
  readonly secret: string
}

interface Answer {
  readonly status: number
  readonly body?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()
const etag = (data: Buffer) => `"${createHash('md5').update(data).digest('hex')}"`

/**
 * Returns whether a request is signed with the key (AWS General Reference, "Create a signed request", steps 1 to 4).
 */
function isSigned(request: IncomingMessage, body: Buffer, key: Key): boolean {
  const form =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8}\/[^/]+\/s3\/aws4_request), ?SignedHeaders=([^,]+), ?Signature=(\w+)$/
  const [, access, scope = '', names = '', signature] = form.exec(request.headers.authorization ?? '') ?? []
  const [path = '', query = ''] = (request.url ?? '').split('?')
  const headers = names.split(';').map(name => `${name}:${String(request.headers[name]).trim()}\n`)
  const hash = String(request.headers['x-amz-content-sha256'])
  const sorted = query === '' ? '' : query.split('&').toSorted().join('&')
  const canonical = [request.method, path, sorted, headers.join(''), names, hash].join('\n')
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope, sha256(canonical)].join('\n')
  const signing = scope.split('/').reduce<string | Buffer>((last, part) => hmac(last, part), `AWS4${key.secret}`)
  return access === key.access && hash === sha256(body) && hmac(signing, text).toString('hex') === signature
}

const xml = (text: string): string => `<?xml version="1.0" encoding="UTF-8"?>${text}`
const refuse = (status: number, code: string): Answer => ({
  status,
  body: xml(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`),
})
const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

function bucketOf() {
  const objects = new Map<string, { readonly data: Buffer; readonly at: Date }>()
  const uploads = new Map<string, Map<number, Buffer>>()

  const list = (query: URLSearchParams): Answer => {
    const [prefix, delimiter] = [query.get('prefix') ?? '', query.get('delimiter') ?? '']
    const groups = new Set<string>()
    const found: string[] = []
    for (const [name, { data, at }] of [...objects].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (!name.startsWith(prefix)) continue
      const cut = delimiter === '' ? -1 : name.indexOf(delimiter, prefix.length)
      if (cut >= 0) groups.add(name.slice(0, cut + 1))
      else
        found.push(
          `<Contents><Key>${escape(name)}</Key><LastModified>${at.toISOString()}</LastModified><ETag>${etag(data)}</ETag>` +
            `<Size>${data.length}</Size><StorageClass>STANDARD</StorageClass></Contents>`,
        )
    }
    const common = [...groups].map(one => `<CommonPrefixes><Prefix>${escape(one)}</Prefix></CommonPrefixes>`)
    const body = `<IsTruncated>false</IsTruncated>${found.join('')}${common.join('')}`
    return { status: 200, body: xml(`<ListBucketResult>${body}</ListBucketResult>`) }
  }
  const post = (name: string, query: URLSearchParams, body: Buffer): Answer => {
    if (query.has('delete')) {
      for (const [, key = ''] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) objects.delete(key)
      return { status: 200, body: xml('<DeleteResult></DeleteResult>') }
    }
    if (query.has('uploads')) {
      const id = String(uploads.size + 1)
      uploads.set(id, new Map())
      const result = `<Bucket>b</Bucket><Key>${escape(name)}</Key><UploadId>${id}</UploadId>`
      return { status: 200, body: xml(`<InitiateMultipartUploadResult>${result}</InitiateMultipartUploadResult>`) }
    }
    const parts = uploads.get(query.get('uploadId') ?? '')
    if (!parts) return refuse(404, 'NoSuchUpload')
    const data = Buffer.concat([...parts].toSorted(([a], [b]) => a - b).map(([, part]) => part))
    objects.set(name, { data, at: new Date() })
    const result = `<Key>${escape(name)}</Key><ETag>${etag(data)}</ETag>`
    return { status: 200, body: xml(`<CompleteMultipartUploadResult>${result}</CompleteMultipartUploadResult>`) }
  }
  const put = (name: string, query: URLSearchParams, data: Buffer): Answer => {
    const part = Number(query.get('partNumber'))
    if (part > 0) uploads.get(query.get('uploadId') ?? '')?.set(part, data)
    else objects.set(name, { data, at: new Date() })
    return { status: 200, headers: { etag: etag(data) } }
  }
  return (method: string, name: string, query: URLSearchParams, body: Buffer, range = ''): Answer => {
    if (method === 'POST') return post(name, query, body)
    if (method === 'PUT') return put(name, query, body)
    if (method === 'DELETE') return objects.delete(name) ? { status: 204 } : { status: 204 }
    if (name === '') return list(query)
    const found = objects.get(name)
    if (!found) return refuse(404, 'NoSuchKey')
    const headers = { etag: etag(found.data), 'last-modified': found.at.toUTCString() }
    // Support ranges (RFC 9110, 14.1.2), because clients read single files out of a bundle.
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(range) ?? []
    if (first === undefined) return { status: 200, body: found.data, headers }
    const end = last ? Number(last) + 1 : found.data.length
    return { status: 206, body: found.data.subarray(Number(first), end), headers }
  }
}

async function serve(address: string, port: number, dir: string, key: Key): Promise<void> {
  const bucket = bucketOf()
  const answer = async (request: IncomingMessage): Promise<Answer> => {
    const body = await buffer(request)
    if (!isSigned(request, body, key)) return refuse(403, 'SignatureDoesNotMatch')
    const { pathname, searchParams } = new URL(request.url ?? '', 'https://s3')
    const [, name = ''] = /^\/[^/]+\/?(.*)$/.exec(decodeURIComponent(pathname)) ?? []
    return bucket(request.method ?? '', name, searchParams, body, request.headers.range)
  }
  const files = { key: readFileSync(join(dir, 'tls.key')), cert: readFileSync(join(dir, 'tls.crt')) }
  const server = createServer(files, (request, response) => {
    answer(request).then(
      ({ status, body = '', headers = {} }) => {
        response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) })
        response.end(request.method === 'HEAD' ? undefined : body)
      },
      () => response.destroy(),
    )
  })
  await new Promise<void>(resolve => server.listen(port, address, resolve))
  process.stdout.write('ready\n')
}

const [address = '', port = '', dir = '', access = '', secret = ''] = process.argv.slice(2)
await serve(address, Number(port), dir, { access, secret })
