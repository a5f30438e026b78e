/** From start to SIGTERM: what every long-running command does around its program. */
import type { Logger } from 'pino'

/** Ctrl-C reaches us from the terminal and again from npm: what comes this soon is the same one. */
const sameSignalMs = 1000

/**
 * Starts a program, keeps the process until SIGINT or SIGTERM, then stops it. A signal during the start is not lost: the
 * program stops as soon as it is up. A second signal does not wait any longer: everything is built to be killed.
 * @param start resolves with what stops the program
 */
export async function runProgram(log: Logger, start: () => Promise<() => Promise<void>>): Promise<void> {
  const asked = Promise.withResolvers<NodeJS.Signals>()
  let firstMs: number | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    firstMs ??= performance.now()
    if (performance.now() - firstMs > sameSignalMs) process.exit(130)
    asked.resolve(signal)
  }
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal)
  try {
    const stop = await start()
    log.info({ signal: await asked.promise }, 'stopping')
    await stop()
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  }
}
