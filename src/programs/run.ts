/** From start to SIGTERM: what every long-running command does around its program. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { StartFailed } from './start-failure.ts'

/** Ctrl-C reaches us from the terminal and again from npm: what comes this soon is the same one. */
const sameSignalMs = 1000
/** A supervisor restarts a program only after its process has ended, so a failed start must end it. */
const defaultReleaseMs = 5000
const lingerMs = 500

export interface RunOptions {
  /** How long a failed start may take to release what it has opened. */
  readonly releaseMs?: number
}

/**
 * Starts a program, keeps the process until SIGINT or SIGTERM, then stops it. A signal during the start is not lost: the
 * program stops as soon as it is up. A second signal does not wait any longer: everything is built to be killed.
 * @param start registers in `scope` how to release what it opens, which happens newest first at the end or when it throws
 * @throws StartFailed, one sentence, when it does; the process then ends soon, even if something is still open
 */
export async function runProgram(
  log: Logger,
  start: (scope: AsyncDisposableStack) => Promise<void>,
  { releaseMs = defaultReleaseMs }: RunOptions = {},
): Promise<void> {
  const asked = Promise.withResolvers<NodeJS.Signals>()
  let firstMs: number | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    firstMs ??= performance.now()
    if (performance.now() - firstMs > sameSignalMs) process.exit(130)
    asked.resolve(signal)
  }
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal)
  const scope = new AsyncDisposableStack()
  try {
    await started(scope, start, log, releaseMs)
    log.info({ signal: await asked.promise }, 'stopping')
    await scope.disposeAsync()
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  }
}

async function started(
  scope: AsyncDisposableStack,
  start: (scope: AsyncDisposableStack) => Promise<void>,
  log: Logger,
  releaseMs: number,
): Promise<void> {
  try {
    await start(scope)
  } catch (cause) {
    log.debug({ err: cause }, 'the start failed')
    const released = scope
      .disposeAsync()
      .catch((error: unknown) => log.debug({ err: error }, 'could not release everything after the failed start'))
    await Promise.race([released, delay(releaseMs, undefined, { ref: false })])
    // Unreferenced: it only fires while something else keeps the process.
    setTimeout(() => process.exit(1), lingerMs).unref()
    throw new StartFailed(cause)
  }
}
