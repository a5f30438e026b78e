/** Serves the dashboard: its files, and its page at every path that has no other handler. */
import { join } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ControlConfig } from '../base/config.ts'
import type { Pages } from '../http/ports.ts'
import { etagOf, readDashboard, type StaticFile } from './files.ts'

/** Output directory of `npm run build` in `dashboard/`. */
export const dashboardDirectory = join(import.meta.dirname, '..', '..', '..', 'dashboard', 'dist')

/** Allows only resources of this server and nothing inline, except for data URLs of images (QR codes and captchas). */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

/** Paths of the API, at which the dashboard's page is never served. */
const reserved = /^\/(?:v1|re-attach|validate|assets)(?:\/|$)/

const notBuilt = Buffer.from(
  '<!doctype html><html lang="en"><title>Mote</title><p>The dashboard is not built. Run: npm run dashboard</p><p>The API is at <a href="/v1/docs">/v1/docs</a>.</p></html>',
)

type Settings = Pick<ControlConfig, 'captchaRequired'>

/** Returns the pages of the dashboard. @param directory output of the dashboard's build; read at the first request */
export function dashboardPages(settings: Settings, directory: string = dashboardDirectory): Pages {
  let read: ReadonlyMap<string, StaticFile> | undefined
  const files = () => (read ??= withSettings(readDashboard(directory), settings))
  const find = (request: FastifyRequest): StaticFile | undefined => {
    const [path = ''] = request.url.split('?')
    const isPage = (request.headers.accept ?? '').includes('text/html') && !reserved.test(path)
    return (path === '/index.html' ? undefined : files().get(path)) ?? (isPage ? pageOf(files()) : undefined)
  }
  return {
    serves: request => (request.method === 'GET' || request.method === 'HEAD') && find(request) !== undefined,
    register: (app: FastifyInstance) =>
      void app.get('/*', (request, reply) => {
        const file = find(request)
        return file ? send(request, reply, file) : reply.callNotFound()
      }),
  }
}

const pageOf = (files: ReadonlyMap<string, StaticFile>): StaticFile =>
  files.get('/index.html') ?? {
    type: 'text/html; charset=utf-8',
    etag: etagOf(notBuilt),
    body: notBuilt,
    compressed: {},
    immutable: false,
  }

/**
 * Inserts the settings that the page needs before its first request into its head, so that no inline script is needed.
 */
function withSettings(files: ReadonlyMap<string, StaticFile>, { captchaRequired }: Settings) {
  const page = files.get('/index.html')
  if (!page) return files
  const text = page.body
    .toString('utf8')
    .replace('name="mote-captcha" content=""', `name="mote-captcha" content="${captchaRequired ? 'on' : 'off'}"`)
  const body = Buffer.from(text)
  return new Map([...files, ['/index.html', { ...page, body, etag: etagOf(body), compressed: {} }]])
}

function send(request: FastifyRequest, reply: FastifyReply, file: StaticFile): FastifyReply {
  reply.header('content-type', file.type).header('etag', file.etag).header('vary', 'accept-encoding')
  reply.header('cache-control', file.immutable ? 'public, max-age=31536000, immutable' : 'no-cache')
  reply.header('content-security-policy', contentSecurityPolicy)
  if (request.headers['if-none-match']?.includes(file.etag)) return reply.code(304).send()
  const encoding = encodingOf(request.headers['accept-encoding'] ?? '', file)
  if (encoding) reply.header('content-encoding', encoding)
  return reply.send((encoding && file.compressed[encoding]) ?? file.body)
}

/**
 * Returns the encoding with the smallest result that the browser accepts (RFC 9110, 12.5.3); undefined if it accepts
 * none.
 */
function encodingOf(accepted: string, { compressed }: StaticFile): 'br' | 'gzip' | undefined {
  const takes = (name: string) =>
    accepted.split(',').some(part => part.trim().split(';')[0] === name && !/;\s*q=0(?:\.0*)?\s*$/.test(part))
  return (['br', 'gzip'] as const).find(name => compressed[name] && takes(name))
}
