import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { list, resource, text } from '../http/types.ts'

const part = (description: string, example: unknown) =>
  Type.Unsafe<Readonly<Record<string, unknown>>>({ type: 'object', description, examples: [example] })

const OpenApiDocument = resource(
  'OpenApiDocument',
  {
    openapi: text({ description: 'Version of OpenAPI.', examples: ['3.1.0'] }),
    info: part('Title, version and introduction of the contract.', { title: 'Mote', version: '0.5.4' }),
    servers: list(part('A base of the paths.', { url: '/v1' }), { description: 'Bases of the paths.' }),
    tags: list(part('A group of operations.', { name: 'Apps' }), { description: 'Groups of operations.' }),
    paths: part('The operations by path and method.', { '/v1/health': { get: { operationId: 'getHealth' } } }),
    components: part('Schemas, headers and answers that operations share.', { schemas: {} }),
  },
  { description: 'A document by OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0).' },
)

const AppFileSchema = resource(
  'AppFileSchema',
  {
    $schema: text({
      description: 'Version of JSON Schema.',
      examples: ['https://json-schema.org/draft/2020-12/schema'],
    }),
    title: text({ description: 'Name of the file.', examples: ['mote.toml'] }),
    type: text({ description: 'Always `object`.', examples: ['object'] }),
    properties: part('The keys of the file by name.', { app: { type: 'string' } }),
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
    summary: 'Get this contract',
    description:
      'Answers the OpenAPI 3.1 document of the operations that this server serves. Generated clients are made from it.',
    ...shared,
    answer: OpenApiDocument,
  },
  getAppFileSchema: {
    method: 'GET',
    path: '/v1/api-docs/mote.schema.json',
    summary: 'Get the schema of mote.toml',
    description: 'Answers the JSON Schema of the file `mote.toml`, with which editors complete and check it.',
    ...shared,
    answer: AppFileSchema,
    addition: true,
  },
  getExplorer: {
    method: 'GET',
    path: '/v1/docs',
    summary: 'Open the explorer of this contract',
    description: 'Answers a page that shows every operation and can call it. It loads nothing from other servers.',
    ...shared,
    answer: 'html',
  },
})
