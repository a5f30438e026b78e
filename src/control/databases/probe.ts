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

/**
 * Runs a program of the database image in the branch's VM. Returns undefined when no healthy VM exists.
 * @throws BusError
 */
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
 * Returns whether the database's owner can connect: a client in the database's VM signs in as the owner and runs
 * `SELECT 1`.
 * @param waitMs how long the client waits for a server that is starting; one call is enough, because the client notices
 * the server within 5 ms
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
    // The host does not respond, or the VM has just ended, so clients cannot reach the database either.
    if (cause instanceof BusError) return false
    throw cause
  }
}

/** Returns whether the database server has finished its start, including its first contact with the log archive. */
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
