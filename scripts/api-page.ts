/** Writes docs/api.md from the declared operations: `node scripts/api-page.ts`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Operation } from '../src/control/http/operation.ts'
import { tagDescriptions } from '../src/control/http/tags.ts'
import { allOperations } from '../src/control/operations.ts'

const page = join(import.meta.dirname, '..', 'docs', 'api.md')

const intro = `# API operations

\`node scripts/api-page.ts\` writes this page from the declared operations; do not edit it. A running control plane serves the OpenAPI document with all fields at
\`/v1/api-docs/openapi.json\` and an explorer at \`/v1/docs\`. [API contract](contract.md) says what all operations have in common, and [API errors](errors.md) lists the error codes.

In the tables, the column **token** has the scope that an access token needs; \`none\` means that the operation needs no credential.`

/** Returns the text of docs/api.md for the current operations. */
export function currentApiPage(): string {
  const groups = Map.groupBy(Object.values<Operation>(allOperations), operation => operation.tag)
  const sections = Object.entries(tagDescriptions).map(([tag, says]) => {
    const rows = (groups.get(tag) ?? [])
      .toSorted((a, b) => a.path.localeCompare(b.path, 'en'))
      .map(one => `| \`${one.method} ${one.path}\` | ${cell(one)} | ${one.auth === 'none' ? 'none' : one.scope} |`)
    return `## ${tag}\n\n${says}\n\n| operation | effect | token |\n|---|---|---|\n${rows.join('\n')}`
  })
  return `${[intro, ...sections].join('\n\n')}\n`
}

const cell = ({ summary, description }: Operation) =>
  `${summary}.${description ? ` ${description}` : ''}`.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')

if (process.argv[1] === import.meta.filename) writeFileSync(page, currentApiPage())
