/** Monitors an agent or gateway that runs in its own process. */
import { once } from 'node:events'
import type { Logger } from 'pino'
import { watchStalls } from '../lib/stalls.ts'
import type { Tally } from '../lib/tally.ts'

export interface Watch {
  /** Port of the metrics server; undefined if metrics are not served. */
  readonly port: number | undefined
  stop(): Promise<void>
}

/**
 * Logs each stall of the event loop, and serves metrics on loopback.
 * @param port undefined: no metrics are served
 * @param refused see `processMetrics`
 * @throws Error if the port is not available
 */
export async function watchProcess(log: Logger, port: number | undefined, refused?: Tally): Promise<Watch> {
  const stalls = watchStalls({ onStall: stall => log.warn(stall, 'the event loop stalled') })
  if (port === undefined) return { port: undefined, stop: async () => stalls.stop() }
  const { createMetricsServer, processMetrics } = await import('../control/http/metrics.ts')
  const server = createMetricsServer({ registry: processMetrics(stalls, refused) })
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch (cause) {
    stalls.stop()
    throw cause
  }
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : port,
    async stop() {
      stalls.stop()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
