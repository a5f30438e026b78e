/** Finds the positions of keys in a TOML document, because the parser only reports positions of syntax errors. */

export interface Position {
  readonly line: number
  readonly column: number
}

/**
 * Matches strings and comments. All strings of a valid document are terminated. The alternatives for unterminated ones
 * keep the matching time linear.
 */
const opaque = /"""(?:\\[\s\S]|[^\\])*?(?:"""+|\\?$)|'''[\s\S]*?(?:'''+|$)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?|#[^\n]*/g
const bareKey = /[A-Za-z0-9_-]+/g

/**
 * Returns the position of each key by its path, such as `processes/web/port` or `volumes/0/name`. Quoted keys and keys
 * in inline tables are left out; for them, `positionOf` returns the position of the table.
 * @param document valid TOML
 */
export function keyPositions(document: string): ReadonlyMap<string, Position> {
  const found = new Map<string, Position>()
  const counts = new Map<string, number>()
  let table = ''
  let depth = 0
  for (const [index, line] of document
    .replaceAll(opaque, all => all.replaceAll(/[^\n]/g, all.startsWith('#') ? ' ' : '"'))
    .split('\n')
    .entries()) {
    const at = { line: index + 1, column: line.search(/\S/) + 1 }
    const text = line.trim()
    if (depth === 0 && text.startsWith('[')) {
      table = pathOf(text)
      if (text.startsWith('[[')) table = `${table}/${nextOf(counts, table)}`
      note(found, table, at)
      continue
    }
    const equals = text.indexOf('=')
    if (depth === 0 && equals > 0) {
      const path = pathOf(text.slice(0, equals))
      note(found, table === '' ? path : `${table}/${path}`, at)
    }
    depth = Math.max(0, depth + count(text, /[[{]/g) - count(text, /[\]}]/g))
  }
  return found
}

const count = (line: string, what: RegExp) => line.match(what)?.length ?? 0
/** Returns the index of the next table in an array of tables. */
function nextOf(counts: Map<string, number>, table: string): number {
  const index = counts.get(table) ?? 0
  counts.set(table, index + 1)
  return index
}

const pathOf = (dotted: string) => (dotted.match(bareKey) ?? []).join('/')

/** Records the position of a path and of the tables around it, unless they occurred before. */
function note(found: Map<string, Position>, path: string, at: Position): void {
  // No key in the schema of `mote.toml` has more than eight parts.
  const parts = path.split('/').slice(0, 8)
  for (let length = 1; length <= parts.length; length++) {
    const above = parts.slice(0, length).join('/')
    if (!found.has(above)) found.set(above, at)
  }
}

/**
 * Returns the position of a key, otherwise that of the innermost table around it with a known position, otherwise the
 * start of the file.
 */
export function positionOf(positions: ReadonlyMap<string, Position>, path: string): Position {
  for (let parts = path.split('/'); parts.length > 0; parts = parts.slice(0, -1)) {
    const at = positions.get(parts.join('/'))
    if (at) return at
  }
  return { line: 1, column: 1 }
}
