/**
 * Many calls, few statements: calls that come in one turn of the event loop, or while as many batches as may be are under
 * way, are done together.
 */
export interface BatchOptions {
  /** Most items of one batch. */
  readonly most: number
  /** Most batches under way. 1: each sees what the one before has done. */
  readonly atOnce: number
}

interface Waiting<In, Out> {
  readonly item: In
  readonly resolve: (out: Out) => void
  readonly reject: (error: unknown) => void
}

/**
 * @param work answers each item, in their order. A batch that fails is done again one by one, so that an item that cannot be
 *   done harms no other; `work` has to bear that.
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
      // The lengths are equal.
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
