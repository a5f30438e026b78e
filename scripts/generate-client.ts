/** `npm run client`: writes the OpenAPI document and the typed client generated from it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { allOperations } from '../src/control/operations.ts'
import { buildOpenApi } from '../src/control/api-docs/openapi.ts'
import { clientSource } from './client/source.ts'

const directory = join(import.meta.dirname, '..', 'src', 'client')
const document = buildOpenApi(allOperations)
writeFileSync(join(directory, 'generated', 'openapi.json'), `${JSON.stringify(document, null, 1)}\n`)
writeFileSync(join(directory, 'generated', 'api.ts'), clientSource(document))
