import { setTimeout as sleep } from 'node:timers/promises'

/** A guest's kernel finds a new disk, and what a disk has grown by, within some 50 ms. */
const foundMs = 10_000

/** Asks the guest until its kernel has found the disk, or its new size; `absent` is the guest's word for "not yet". */
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
