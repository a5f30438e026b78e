/** Records which HTTP statuses each operation returned, and which request provoked each. */
import { allOperations } from '../../src/control/operations.ts'
import { buildOpenApi } from '../../src/control/api-docs/openapi.ts'

export interface Record {
  /**
   * Records a response. The table of statuses describes the first request that provoked each status.
   * @param how description of the request; undefined if it was meant to provoke another status
   */
  add(id: string, status: number, how: string | undefined): void
  /** True if a request that was meant to provoke this status has done so. */
  has(id: string, status: number): boolean
  /** Every observed pair `<operation id> <status>`, in the order of the OpenAPI document. */
  readonly observed: readonly string[]
  /** The pairs in `observed` that were provoked on purpose. */
  readonly provoked: readonly string[]
  readonly table: string
}

interface Document {
  readonly paths: {
    readonly [path: string]: {
      readonly [method: string]: { readonly responses: { readonly [status: string]: unknown } }
    }
  }
}

const document = buildOpenApi(allOperations) as unknown as Document

/** The statuses of each operation in the OpenAPI document. */
export const documented = new Map(
  Object.entries(allOperations).map(([id, { method, path }]) => [
    id,
    Object.keys(document.paths[path]?.[method.toLowerCase()]?.responses ?? {}).map(Number),
  ]),
)

export const pairs = (statuses: ReadonlyMap<string, Iterable<number>>): string[] =>
  [...statuses].flatMap(([id, all]) => [...all].toSorted((a, b) => a - b).map(status => `${id} ${status}`))

export function createRecord(): Record {
  const ids = Object.keys(allOperations)
  const observed = new Map<string, Set<number>>(ids.map(id => [id, new Set()]))
  const provoked = new Map<string, Map<number, string>>(ids.map(id => [id, new Map()]))
  return {
    add(id, status, how) {
      observed.get(id)?.add(status)
      const own = provoked.get(id)
      if (how !== undefined && !own?.has(status)) own?.set(status, how)
    },
    has: (id, status) => provoked.get(id)?.has(status) ?? false,
    get observed() {
      return pairs(observed)
    },
    get provoked() {
      return pairs(new Map([...provoked].map(([id, own]) => [id, own.keys()])))
    },
    get table() {
      return render(provoked)
    },
  }
}

function render(observed: ReadonlyMap<string, ReadonlyMap<number, string>>): string {
  const rows = Object.entries(allOperations).map(([id, { method, path }]) => {
    const cells = [...(observed.get(id) ?? [])].toSorted(([a], [b]) => a - b)
    return `| \`${method} ${path}\` | ${cells.map(([status, how]) => `**${status}** ${how}`.trim()).join('; ')} |`
  })
  return `# API statuses

\`test/statuses.test.ts\` writes this page. The test sends requests to the API, on a real database and simulated hosts,
until each operation has returned every status that the OpenAPI document lists for it. It fails if an operation returns
a status that the document does not list, or if the document lists a status that no request provokes.

Update the page with \`npx vitest run test/statuses.test.ts --update\`.

The table does not contain two statuses, because they belong to no operation: the server responds with 404 to an unknown
path, and with 405 and the header \`Allow\` to a method that a path does not support.

| operation | statuses that it returns, each with what causes it |
|---|---|
${rows.join('\n')}
`
}
