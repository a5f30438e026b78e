/**
 * Generates a function for each operation of the OpenAPI document, which calls a transport (src/client/transport.ts).
 */
import { type Json, isJson, list, members, object, text, typeOf } from './schema.ts'

interface Parameter {
  readonly name: string
  readonly place: string
  readonly required: boolean
  readonly schema: unknown
  readonly description: string | undefined
}

interface Described {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly json: Json
}

/**
 * Returns the source of `createOperations`, whose functions have the order of the document:
 * `export const createOperations = (transport) => ({ listApps: ..., ... })`.
 */
export function operationsSource(document: Json): string {
  const described = Object.entries(object(document.paths, 'paths')).flatMap(([path, item]) =>
    Object.entries(object(item, path))
      .filter(([method]) => method !== 'servers')
      .map(([method, operation]): Described => {
        const json = object(operation, `${method} ${path}`)
        return { id: text(json.operationId) ?? '', method: method.toUpperCase(), path, json }
      })
      // Skip WebSockets (response 101), which are not ordinary requests.
      .filter(({ json }) => !('101' in object(json.responses, path))),
  )
  return `export const createOperations = (transport: Transport) => ({\n${described.map(operationSource).join('')}})\n`
}

/**
 * Query parameters that are not arguments of the generated functions: the client sends the project and the stream
 * position automatically, as headers.
 */
const sentAsHeader: ReadonlySet<string> = new Set(['project', 'last_event_id'])

function operationSource(operation: Described): string {
  const { id, method, path, json } = operation
  const parameters = parametersOf(json)
  const inPath = parameters.filter(({ place }) => place === 'path')
  const inQuery = parameters.filter(({ place, name }) => place === 'query' && !sentAsHeader.has(name))
  const { answer, call } = answerOf(json, id)
  const body = bodyOf(json, id)
  const fields = [
    ...inPath.map(({ name, schema }) => `readonly ${name}: ${typeOf(schema, id)}`),
    ...(inQuery.length > 0 ? [`readonly query?: {\n${queryMembers(inQuery, id)}} | undefined`] : []),
    ...(body ? [`readonly body${body.required ? '' : '?'}: ${body.type}${body.required ? '' : ' | undefined'}`] : []),
  ]
  const optional = inPath.length === 0 && !body?.required
  const input = fields.length === 0 ? '' : `input: { ${fields.join('; ')} }${optional ? ' = {}' : ''}, `
  const url = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => `\${encodeURIComponent(input.${name})}`)
  const request = [
    `method: '${method}'`,
    `path: \`${url}\``,
    ...(inQuery.length > 0 ? ['query: input.query'] : []),
    ...(body ? ['body: input.body'] : []),
    ...(list(json.security).length === 0 ? ['open: true'] : []),
  ].join(', ')
  const options = optionsOf[call]
  return `  /** ${text(json.summary) ?? id}. \`${method} ${path}\` */
  ${id}: (${input}options?: ${options}) => transport.${call}${answer}({ ${request} }, options),\n`
}

const optionsOf = { json: 'CallOptions', text: 'CallOptions', bytes: 'ByteOptions', stream: 'StreamOptions' } as const

function parametersOf(json: Json): Parameter[] {
  return list(json.parameters)
    .map(parameter => object(parameter, 'parameters'))
    .map(parameter => ({
      name: text(parameter.name) ?? '',
      place: text(parameter.in) ?? '',
      required: parameter.required === true,
      schema: parameter.schema,
      description: text(parameter.description),
    }))
}

const queryMembers = (parameters: readonly Parameter[], where: string) =>
  members(
    {
      required: parameters.filter(({ required }) => required).map(({ name }) => name),
      properties: Object.fromEntries(
        parameters.map(({ name, schema, description }) => [name, { ...object(schema, where), description }]),
      ),
    },
    where,
  )

function bodyOf(json: Json, where: string): { readonly type: string; readonly required: boolean } | undefined {
  if (!isJson(json.requestBody)) return undefined
  const { required, content } = json.requestBody
  const media = object(content, where)['application/json']
  const type = isJson(media) ? typeOf(media.schema, where) : 'string | Uint8Array<ArrayBuffer> | Blob'
  return { type, required: required === true }
}

/**
 * Returns the source of a reference to the transport function that reads the operation's response, with its type
 * argument.
 */
function answerOf(json: Json, where: string): { readonly call: keyof typeof optionsOf; readonly answer: string } {
  const success = object(object(json.responses, where)['200'], where)
  const [[type, media] = ['', {}]] = Object.entries(object(success.content ?? {}, where))
  if (type === 'text/event-stream') return { call: 'stream', answer: `<${eventsOf(object(media, where), where)}>` }
  if (type === 'application/octet-stream') return { call: 'bytes', answer: '' }
  if (type !== 'application/json') return { call: 'text', answer: '' }
  return { call: 'json', answer: `<${typeOf(object(media, where).schema, where)}>` }
}

/** Returns the TypeScript types of the data of a stream's events, by event name. */
function eventsOf(media: Json, where: string): string {
  const content = object(object(media.schema, where).contentSchema, where)
  const events = list(content.oneOf).map(branch => {
    const { data, event } = object(object(branch, where).properties, where)
    return `'${text(object(event, where).const)}': ${typeOf(data, where)}`
  })
  return `{ ${events.join('; ')} }`
}
