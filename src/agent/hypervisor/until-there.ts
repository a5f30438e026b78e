import { setTimeout as sleep } from 'node:timers/promises'

/** Timeout for a guest's kernel to detect a new disk or a disk's new size, which takes about 50 ms. */
const foundMs = 10_000

/**
 * Repeats the request until the guest's kernel has detected the disk or its new size; until then, the guest answers
 * `absent`.
 */
export async function untilThere(ask: () => Promise<string>): Promise<void> {
  const deadline = performance.now() + foundMs
  for (;;) {
    try {
      await ask()
      return
    } catch (error) {
      if (!(error instanceof Error) || !error.message.endsWith('absent') || performance.now() > deadline) throw error
    }
    await sleep(10)
  }
}
