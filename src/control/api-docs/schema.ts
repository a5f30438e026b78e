import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { list, resource, text } from '../http/types.ts'

const part = (description: string, example: unknown) =>
  Type.Unsafe<Readonly<Record<string, unknown>>>({ type: 'object', description, examples: [example] })

const OpenApiDocument = resource(
  'OpenApiDocument',
  {
    openapi: text({ description: 'Version of the OpenAPI specification.', examples: ['3.1.0'] }),
    info: part('Title, version and introduction of the API.', { title: 'Mote', version: '0.5.4' }),
    servers: list(part('A base URL of the paths.', { url: '/v1' }), { description: 'Base URLs of the paths.' }),
    tags: list(part('A group of operations.', { name: 'Apps' }), { description: 'Groups of operations.' }),
    paths: part('The operations by path and method.', { '/v1/health': { get: { operationId: 'getHealth' } } }),
    components: part('Schemas, headers and responses that operations share.', { schemas: {} }),
  },
  { description: 'An OpenAPI 3.1 document (https://spec.openapis.org/oas/v3.1.0).' },
)

const AppFileSchema = resource(
  'AppFileSchema',
  {
    $schema: text({
      description: 'Version of the JSON Schema specification.',
      examples: ['https://json-schema.org/draft/2020-12/schema'],
    }),
    title: text({ description: 'Name of the described file.', examples: ['mote.toml'] }),
    type: text({ description: 'Always `object`.', examples: ['object'] }),
    properties: part('Schemas of the keys in the file, by name.', { app: { type: 'string' } }),
  },
  { description: 'The JSON Schema of `mote.toml` (docs/mote-toml.md).' },
)

const shared = {
  tag: 'System',
  auth: 'none',
  scope: 'read',
  project: 'none',
  throttle: 'unlimited',
  proof: 'none: public',
} as const

export const apiDocsOperations = operations({
  getOpenApi: {
    method: 'GET',
    path: '/v1/api-docs/openapi.json',
    summary: 'Get the OpenAPI document',
    description: "Returns the OpenAPI 3.1 document of this server's API, from which clients can be generated.",
    ...shared,
    answer: OpenApiDocument,
  },
  getAppFileSchema: {
    method: 'GET',
    path: '/v1/api-docs/mote.schema.json',
    summary: 'Get the schema of mote.toml',
    description: 'Returns the JSON Schema of the file `mote.toml`, with which editors can complete and check the file.',
    ...shared,
    answer: AppFileSchema,
    addition: true,
  },
  getExplorer: {
    method: 'GET',
    path: '/v1/docs',
    summary: 'Open the API explorer',
    description:
      'Returns a web page that shows every operation and can send requests. It loads nothing from other servers.',
    ...shared,
    answer: 'html',
  },
})
