import { BusError } from '../../bus/bus.ts'
import { agentClient } from '../hosts/index.ts'
import type { DatabaseDeps } from './deps.ts'
import type { Branch } from './store.ts'

const timeoutMs = 10_000

export interface Ran {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program of the image in the branch's VM. Returns undefined when no healthy VM exists. @throws BusError */
export async function runInside(
  deps: Pick<DatabaseDeps, 'bus'>,
  b: Pick<Branch, 'vm'>,
  command: readonly string[],
  signal?: AbortSignal,
  limitMs = timeoutMs,
): Promise<Ran | undefined> {
  const { vm } = b
  if (!vm?.hostId || !vm.healthy) return undefined
  return agentClient(deps.bus, vm.hostId).exec({ vmId: vm.id, command: [...command], timeoutMs: limitMs }, signal)
}

/**
 * Returns whether the owner can use the database: a client in its VM signs in as the owner and runs `SELECT 1`.
 * @param waitMs how long the client waits for a starting server. It notices the server within 5 ms, so that repeated
 * calls are not needed
 */
export async function doesAnswer(
  deps: Pick<DatabaseDeps, 'bus'>,
  b: Pick<Branch, 'vm'>,
  signal: AbortSignal,
  waitMs = 0,
): Promise<boolean> {
  try {
    const command = ['/usr/local/bin/mote-ready', String(waitMs)]
    return (await runInside(deps, b, command, signal, waitMs + timeoutMs))?.exitCode === 0
  } catch (cause) {
    // If the host does not respond, or the VM has just ended, the database is unreachable, too.
    if (cause instanceof BusError) return false
    throw cause
  }
}

/** Returns whether all work of a start is done, including the first contact with the archive. */
export async function isSettled(
  deps: Pick<DatabaseDeps, 'bus'>,
  b: Pick<Branch, 'vm'>,
  signal: AbortSignal,
): Promise<boolean> {
  const ran = await runInside(deps, b, ['test', '-e', '/run/postgresql/settled'], signal).catch(absent)
  return ran?.exitCode === 0
}

function absent(cause: unknown): undefined {
  if (!(cause instanceof BusError)) throw cause
}
