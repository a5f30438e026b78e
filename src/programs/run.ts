/** Runs a long-running command from its start to SIGTERM. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { StartFailed } from './start-failure.ts'

/** Signals within this time count as one: for Ctrl-C, the terminal sends a signal and npm another one. */
const sameSignalMs = 1000
/**
 * Time limit for releasing everything after a failed start, because a supervisor only restarts a program after its
 * process has exited.
 */
const defaultReleaseMs = 5000
const lingerMs = 500

export interface RunOptions {
  /** Time limit for releasing everything after a failed start, in ms. */
  readonly releaseMs?: number
}

/**
 * Starts a program, runs it until SIGINT or SIGTERM, and stops it. After a signal during the start, the program stops
 * as soon as it is up. A second signal ends the process at once, which is safe because every program tolerates a crash.
 * @param start registers releases in `scope`; they run newest first at the end, or when `start` throws
 * @throws StartFailed with one sentence if the start fails; the process then exits soon, even if something is still
 * open
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
    // Exit even if something is still open. The timer itself does not keep the process alive.
    setTimeout(() => process.exit(1), lingerMs).unref()
    throw new StartFailed(cause)
  }
}
