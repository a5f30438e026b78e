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

/** Runs a program of the image in the branch's VM. Undefined: there is no VM that could, now. @throws BusError */
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
 * Whether the owner of the database can work in it: a client in its VM signs in as the owner and asks for 1.
 * @param waitMs how long the client may wait for a server that starts; it notices within 5 ms, and nobody has to ask again
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
    // Its host does not answer, or the VM just ended: then neither does the database.
    if (cause instanceof BusError) return false
    throw cause
  }
}

/** Whether all that a start does has been done, the first contact with its archive, too. */
export async function isAtRest(
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
