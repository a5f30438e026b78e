/**
 * A reading for which the guest has to work. An idle guest gives the last one again for some time, because each costs it
 * 0.5 ms of processor time, as much as its other work in a second.
 */
export class IdleReading<T> {
  /** Whether the guest is idle now. */
  isIdle = false
  readonly #read: () => Promise<T>
  readonly #lifeMs: number
  #last: { readonly value: T; readonly atMs: number } | undefined

  /** @param lifeMs for how long an idle guest gives the same reading */
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
