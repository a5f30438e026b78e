import { object } from './schema.ts'
import { interfaces } from './schema.ts'
import { operationsSource } from './operations.ts'

const head = `// Made by scripts/generate-client.ts from the OpenAPI document. Not to be edited: run \`npm run client\`.\n`

const jsonValue = `/** Any JSON: a value whose shape depends on what it is about. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue }
`

/** Returns the text of src/client/generated/api.ts for our OpenAPI 3.1 document. */
export function clientSource(document: unknown): string {
  const json = object(document, 'document')
  const schemas = object(object(json.components, 'components').schemas, 'schemas')
  const types = interfaces(schemas)
  return `${head}import type { ByteOptions, CallOptions, StreamOptions, Transport } from '../transport.ts'\n\n${jsonValue}\n${types}\n${operationsSource(json)}`
}
