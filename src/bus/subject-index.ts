import { covers } from './subjects.ts'

/**
 * Finds the subscriptions that match a subject. Exact subjects are looked up by name, because thousands of hosts serve
 * subjects of their own; only patterns with wildcards are tested one by one.
 */
export class SubjectIndex<T extends { readonly pattern: string }> {
  readonly #exact = new Map<string, Set<T>>()
  readonly #patterns = new Set<T>()

  add(item: T): void {
    if (isPattern(item.pattern)) this.#patterns.add(item)
    else this.#exact.set(item.pattern, (this.#exact.get(item.pattern) ?? new Set()).add(item))
  }

  delete(item: T): void {
    this.#patterns.delete(item)
    const same = this.#exact.get(item.pattern)
    same?.delete(item)
    if (same?.size === 0) this.#exact.delete(item.pattern)
  }

  matching(subject: string): T[] {
    const found = [...(this.#exact.get(subject) ?? [])]
    for (const item of this.#patterns) if (covers(item.pattern, subject)) found.push(item)
    return found
  }
}

function isPattern(pattern: string): boolean {
  return pattern.split('.').some(part => part === '*' || part === '>')
}
