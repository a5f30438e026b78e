/** Lists the methods of a path, for 405 responses and the `Allow` header. Used only if no route matched. */
import type { Operation } from './operation.ts'

/** Converts a path such as `/v1/apps/{app_name}` to Fastify's form, `/v1/apps/:app_name`. */
export const routePath = (path: string) => path.replaceAll(/\{(\w+)\}/g, ':$1')

export type MethodsOf = (path: string) => readonly string[]

export function methodTable(operations: Iterable<Operation>): MethodsOf {
  const rows: { readonly pattern: RegExp; readonly method: string }[] = []
  for (const { method, path } of operations)
    rows.push({ pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`), method })
  return path => {
    const methods = new Set(rows.filter(row => row.pattern.test(path)).map(row => row.method))
    if (methods.has('GET')) methods.add('HEAD')
    return methods.size === 0 ? [] : [...methods, 'OPTIONS']
  }
}
