/**
 * Batches calls. Calls in the same turn of the event loop, and those made while the maximum number of batches is
 * running, are processed together.
 */
export interface BatchOptions {
  /** Maximum number of items in one batch. */
  readonly most: number
  /** Maximum number of concurrent batches. With 1, each batch starts after the previous one has ended. */
  readonly atOnce: number
}

interface Waiting<In, Out> {
  readonly item: In
  readonly resolve: (out: Out) => void
  readonly reject: (error: unknown) => void
}

/**
 * Returns a function that processes one item as part of a batch.
 * @param work returns one result per item, in order. A failed batch is repeated one item at a time, so that a faulty
 * item does not affect the others; `work` must tolerate the repetition.
 */
export function batched<In, Out>(
  work: (items: readonly In[]) => Promise<readonly Out[]>,
  { most, atOnce }: BatchOptions,
): (item: In) => Promise<Out> {
  const waiting: Waiting<In, Out>[] = []
  let underWay = 0
  let scheduled = false

  const settle = async (batch: readonly Waiting<In, Out>[]): Promise<void> => {
    try {
      const answers = await work(batch.map(one => one.item))
      if (answers.length !== batch.length) throw new Error(`BUG: ${answers.length} answers to ${batch.length} items`)
      // The assertion is safe: `work` returns as many results as there are items.
      for (const [at, one] of batch.entries()) one.resolve(answers[at]!)
    } catch (error) {
      const [first] = batch
      if (batch.length === 1) first?.reject(error)
      else for (const one of batch) await settle([one])
    }
  }
  const run = async (): Promise<void> => {
    underWay++
    await settle(waiting.splice(0, most))
    underWay--
    schedule()
  }
  const schedule = () => {
    if (scheduled || waiting.length === 0 || underWay >= atOnce) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      void run()
      schedule()
    })
  }
  return item =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      schedule()
    })
}
