/**
 * Caches a value that the guest has to compute. While the guest is idle, a cached value is used for some time: each
 * reading costs the guest 0.5 ms of processor time, as much as all other work of an idle guest in a second.
 */
export class IdleReading<T> {
  /** True while the guest is idle. */
  isIdle = false
  readonly #read: () => Promise<T>
  readonly #lifeMs: number
  #last: { readonly value: T; readonly atMs: number } | undefined

  /** @param lifeMs how long a cached value is used while the guest is idle */
  constructor(read: () => Promise<T>, lifeMs: number) {
    this.#read = read
    this.#lifeMs = lifeMs
  }

  async read(nowMs = performance.now()): Promise<T> {
    if (this.isIdle && this.#last && nowMs - this.#last.atMs < this.#lifeMs) return this.#last.value
    const value = await this.#read()
    this.#last = { value, atMs: nowMs }
    return value
  }
}
