/**
 * The HTTP server of the API: registers a route for every declared operation and applies the common rules. Each request
 * passes through: credential, scope, project, role, rate limit (admission.ts), body parsing (json-body.ts),
 * validation (validate.ts) and the handler (run-handler.ts; `write`: write.ts, `stream`: stream-route.ts, `bytes`:
 * bytes-route.ts, `socket`: socket-route.ts). A read with a known credential may start before authentication is
 * confirmed (attempt.ts).
 */
import { METHODS, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { hasSeveralHosts } from '../../lib/one-host.ts'
import { createAdmission, type Admission } from './admission.ts'
import { beginReadOf } from './attempt.ts'
import { limitBodyTime } from './body-deadline.ts'
import { bodyLimitOf, bytesPerRequest } from './body-limit.ts'
import { ApiError } from './errors.ts'
import { failureOf } from './failure.ts'
import { corsHeaders, preflightHeaders, securityHeaders } from './headers.ts'
import { itemHandler } from './items.ts'
import type { Feature, Handler, Operation } from './operation.ts'
import { methodTable, type MethodsOf, routePath } from './paths.ts'
import { readerOf } from './precondition.ts'
import type { FrameDeps, ServerOptions } from './ports.ts'
import { plainAddress } from './rate-limit.ts'
import { sendFailure } from './respond.ts'
import { createRoute, type Route } from './route.ts'
import { runHandler } from './run-handler.ts'
import { createStreamRegistry, defaultStreamLimits, type StreamRegistry } from './sse.ts'
import type { StreamContext } from './stream-route.ts'
import { createTraces, requestIdOf } from './trace.ts'
import { takeUpgrades, wantsSocket } from './upgrade.ts'
import { installUploadParser } from './upload.ts'

export interface ApiServer {
  /**
   * `listen`, `inject` and `close` are Fastify's. `close` finishes running requests and ends open event
   * streams with a comment that gives the reason.
   */
  readonly app: FastifyInstance
  readonly streams: StreamRegistry
}

export function createServer(options: ServerOptions): ApiServer {
  const { deps } = options
  const operations = operationsOf(options)
  const streams = createStreamRegistry(deps.config.streamsPerUser)
  const admission = createAdmission({ ...options, limits: deps.config.rateLimits, clock: deps.clock })
  const traces = createTraces()
  const app = createFastify(deps, traces)
  const context: StreamContext = {
    clock: deps.clock,
    limits: { ...defaultStreamLimits, ...options.streamLimits },
    registry: streams,
    admission,
    upgrades: takeUpgrades(app),
  }
  app.decorateRequest('state', null)
  installHooks(app, options, { admission, streams, traces })
  installBodyParser(app)
  dropOtherMethods(app)
  app.setErrorHandler(sendFailure)
  installNotFound(app, methodTable(Object.values(operations)), deps.config.corsOrigins)

  const handlers = handlersOf(options.features)
  const routes = Object.entries(operations).map(([id, operation]) => {
    const found = handlers.get(id) ?? itemHandler(operation, handlers.get(operation.itemOf?.list ?? ''))
    return createRoute(id, operation, found, options.checkAnswers ?? false)
  })
  for (const route of routes) {
    const parts = { route, reader: readerOf(route, routes) }
    const handler: Run = (request, reply) => runHandler(options, context, parts, request, reply)
    if (route.operation.upload) app.register(async uploads => takeUploads(uploads, route, handler))
    else registerRoute(app, route, handler)
  }
  for (const pages of options.pages ?? []) pages.register(app)
  return { app, streams }
}

/** Returns `options.operations` and the operations that each feature declares, which need not be in that list. */
function operationsOf(options: ServerOptions): Readonly<Record<string, Operation>> {
  return Object.assign({}, options.operations, ...options.features.map(feature => feature.operations))
}

function handlersOf(features: readonly Feature[]): Map<string, Handler<never>> {
  const handlers = new Map<string, Handler<never>>()
  for (const feature of features)
    for (const [id, handler] of Object.entries(feature.handlers)) {
      if (!handler) continue
      if (handlers.has(id)) throw new Error(`BUG: two features implement ${id}`)
      handlers.set(id, handler)
    }
  return handlers
}

function createFastify(deps: FrameDeps, traces: Traces): FastifyInstance {
  const loggerInstance: FastifyBaseLogger = deps.log
  return Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    childLoggerFactory: (logger, bindings, options, raw) =>
      logger.child({ ...bindings, trace_id: traces.of(raw).traceId }, options),
    genReqId: raw => requestIdOf(raw.headers['x-request-id']),
    trustProxy: deps.config.trustedProxies.length > 0 ? [...deps.config.trustedProxies] : false,
    bodyLimit: bytesPerRequest,
    // Declares an OpenAPI format that the serializer would otherwise report as unknown. The serializer does not
    // validate numbers.
    serializerOpts: { ajv: { formats: { uint32: true } } },
    routerOptions: { maxParamLength: 512 },
    return503OnClosing: false,
    http: { shouldUpgradeCallback: wantsSocket },
    forceCloseConnections: 'idle',
    // Disabled, because bodies have time limits of their own: body-deadline.ts, upload.ts.
    requestTimeout: 0,
    keepAliveTimeout: 72_000,
    frameworkErrors: (error, request, reply) => {
      reply.headers(securityHeaders).header('x-request-id', request.id)
      return sendFailure(error, request, reply)
    },
    clientErrorHandler: answerUnreadable,
  })
}

/**
 * Answers a request that Node could not parse. Closes the connection, because it is unknown where the next request
 * starts.
 */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable) return void socket.destroy(error)
  const isMethod = error.code === 'HPE_INVALID_METHOD'
  const refusal = isMethod
    ? new ApiError('method_not_allowed', 'The server does not support this method.', { cause: error })
    : new ApiError('invalid_request', 'This is not a valid HTTP request.', { cause: error })
  const { status, body } = failureOf(refusal, requestIdOf(undefined))
  const text = JSON.stringify(body)
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
    // The path is unknown here, because the request line was not parsed as usual, so list the methods of the whole API.
    ...(isMethod ? ['allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'] : []),
    'connection: close',
  ]
  socket.end(`${lines.join('\r\n')}\r\n\r\n${text}`)
}

interface Parts {
  readonly admission: Admission
  readonly streams: StreamRegistry
  readonly traces: Traces
}
type Traces = ReturnType<typeof createTraces>

function installHooks(app: FastifyInstance, options: ServerOptions, { admission, streams, traces }: Parts): void {
  const { config } = options.deps
  let stopping = false
  app.addHook('preClose', async () => {
    stopping = true
    streams.endWhere(() => true, 'the server is restarting')
  })
  app.addHook('onRequest', async (request, reply) => {
    // Not in the onResponse hook, because Fastify does not call that when the client disconnects, as most readers of
    // streams do.
    reply.raw.once('close', () => finish(options, request, reply))
    request.state = {
      ip: plainAddress(request.ip),
      traceparent: traces.of(request.raw).traceparent,
      caller: undefined,
      project: undefined,
      attempt: undefined,
    }
    reply.headers(securityHeaders).headers(corsHeaders(request.headers.origin, config.corsOrigins))
    reply.header('x-request-id', request.id)
    if (hasSeveralHosts(request.raw.rawHeaders)) throw new ApiError('invalid_request', 'Send one Host header.')
    if (stopping) {
      reply.header('connection', 'close')
      throw new ApiError('unavailable', 'The server is restarting. Try again in a moment.')
    }
    limitBodyTime(request)
    if (options.pages?.some(pages => pages.serves(request))) return
    await admission.admit(request, reply, request.routeOptions.config.mote)
  })
}

/** Writes one log line per request, without query and headers, because they can contain tokens. */
function finish(options: ServerOptions, request: FastifyRequest, reply: FastifyReply): void {
  const { mote } = request.routeOptions.config
  const { state } = request
  const [path] = request.url.split('?')
  const line = {
    operation: mote?.id,
    method: request.method,
    path,
    status: reply.raw.statusCode,
    // The client disconnected before it had received the whole response.
    aborted: reply.raw.writableFinished || reply.raw.statusCode === 101 ? undefined : true,
    ms: Math.round(reply.elapsedTime * 10) / 10,
    ip: state?.ip,
    user_id: state?.caller?.userId,
    project_id: state?.project?.id,
  }
  if (mote?.operation.throttle === 'unlimited') request.log.debug(line, 'request')
  else request.log.info(line, 'request')
  options.observe?.({
    operation: mote?.id ?? 'unknown',
    method: request.method,
    status: reply.raw.statusCode,
    seconds: reply.elapsedTime / 1000,
    stream: isOpenEnded(mote?.operation.answer),
  })
}

const isOpenEnded = (answer: Operation['answer'] | undefined) =>
  answer === 'stream' || answer === 'socket' || answer === 'bytes'

/** Use one parser for every media type: the route interprets the bytes (route.ts). */
function installBodyParser(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (_request: FastifyRequest, body: Buffer) => body)
}

/**
 * Removes all methods that no operation has, so that they get 404 or 405 at once. Otherwise Fastify would read the body
 * before it looks up the route, and it has special rules for QUERY.
 */
function dropOtherMethods(app: FastifyInstance): void {
  const ours = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
  for (const method of METHODS)
    if (!ours.has(method)) app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
}

function installNotFound(app: FastifyInstance, methodsOf: MethodsOf, origins: readonly string[]): void {
  app.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?')
    const methods = methodsOf(path)
    if (methods.length === 0) throw new ApiError('not_found', 'No resource exists at this path.')
    // The path has a route for this method. The router skips it only if a path parameter is too long.
    if (request.method !== 'OPTIONS' && methods.includes(request.method))
      throw new ApiError('invalid_request', 'A part of the path is too long.')
    reply.header('allow', methods.join(', '))
    if (request.method !== 'OPTIONS')
      throw new ApiError('method_not_allowed', `This path does not support the method ${request.method}.`)
    if (origins.includes(request.headers.origin ?? ''))
      reply.headers(preflightHeaders).header('access-control-allow-methods', methods.join(', '))
    return reply.code(204).send()
  })
}

function takeUploads(app: FastifyInstance, route: Route, handler: Run): void {
  installUploadParser(app)
  registerRoute(app, route, handler)
}

type Run = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

function registerRoute(app: FastifyInstance, route: Route, handler: Run): void {
  const { answer, method, path } = route.operation
  app.route({
    method,
    url: routePath(path),
    config: { mote: { id: route.id, operation: route.operation, beginRead: beginReadOf(route) } },
    bodyLimit: bodyLimitOf(route.operation),
    // Refuse HEAD: the response of a stream would never end, and a download would read the whole file.
    exposeHeadRoute: method === 'GET' && !isOpenEnded(answer),
    handler,
  })
}
