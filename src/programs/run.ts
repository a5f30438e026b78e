/** From start to SIGTERM: what every long-running command does around its program. */
import type { Logger } from 'pino'

/**
 * Keeps the process until SIGINT or SIGTERM, then stops. A second signal does not wait any longer: everything is built
 * to be killed.
 */
export async function untilSignal(log: Logger, stop: () => Promise<void>): Promise<void> {
  const signal = await new Promise<NodeJS.Signals>(resolve => {
    process.once('SIGINT', resolve).once('SIGTERM', resolve)
  })
  log.info({ signal }, 'stopping')
  const hurry = () => process.exit(130)
  process.once('SIGINT', hurry).once('SIGTERM', hurry)
  await stop()
  process.off('SIGINT', hurry).off('SIGTERM', hurry)
}
