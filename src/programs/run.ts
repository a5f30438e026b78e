/** From start to SIGTERM: what every long-running command does around its program. */
import type { Logger } from 'pino'

/**
 * Starts a program, keeps the process until SIGINT or SIGTERM, then stops it. A signal during the start is not lost: the
 * program stops as soon as it is up. A second signal does not wait any longer: everything is built to be killed.
 * @param start resolves with what stops the program
 */
export async function runProgram(log: Logger, start: () => Promise<() => Promise<void>>): Promise<void> {
  const asked = Promise.withResolvers<NodeJS.Signals>()
  const onSignal = (signal: NodeJS.Signals) => {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
    process.once('SIGINT', hurry).once('SIGTERM', hurry)
    asked.resolve(signal)
  }
  const hurry = () => process.exit(130)
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal)
  try {
    const stop = await start()
    log.info({ signal: await asked.promise }, 'stopping')
    await stop()
  } finally {
    for (const handler of [onSignal, hurry]) process.off('SIGINT', handler).off('SIGTERM', handler)
  }
}
