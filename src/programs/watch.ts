/** What is watched of an agent or a gateway that has a process of its own. */
import { once } from 'node:events'
import type { Logger } from 'pino'
import { watchStalls } from '../lib/stalls.ts'
import type { Tally } from '../lib/tally.ts'

export interface Watch {
  /** Of the metrics. */
  readonly port: number | undefined
  stop(): Promise<void>
}

/**
 * Logs each time that the event loop stands still; metrics on loopback.
 * @param port none when undefined
 * @param refused see `processMetrics`
 * @throws Error when the port cannot be had
 */
export async function watchProcess(log: Logger, port: number | undefined, refused?: Tally): Promise<Watch> {
  const stalls = watchStalls({ onStall: ms => log.warn({ ms }, 'the event loop stood still') })
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
