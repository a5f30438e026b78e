/**
 * A child process that outlives a killed test run and cleans up after it. The test process holds the other end of its
 * stdin; when that closes for any reason, the reaper kills the registered processes and removes the registered
 * directories, and what the agents of processes that are gone left behind. Started as a program by `startReaper`.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { removeAbandoned } from './agent/remains.ts'

export interface Reaper {
  killAtEnd(pid: number): void
  removeAtEnd(directory: string): void
  /** Unregisters a process that has ended, so that a later process with the same PID is spared. */
  forget(pid: number): void
  /** Cleans up now. Resolves when everything is removed. */
  finish(): Promise<void>
}

type Order =
  | { readonly kill: number }
  | { readonly remove: string }
  | { readonly forget: number }
  /** The run was not killed. */
  | { readonly finished: true }

export function startReaper(): Reaper {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
    stdio: ['pipe', 'ignore', 'inherit'],
    // Ctrl-C reaches the whole process group of the terminal, and the reaper must survive it.
    detached: true,
    env: {},
  })
  child.unref()
  const ended = once(child, 'exit')
  const report = (order: Order) => writeLine(child, order)
  return {
    killAtEnd: pid => report({ kill: pid }),
    removeAtEnd: directory => report({ remove: directory }),
    forget: pid => report({ forget: pid }),
    async finish() {
      // Without the reference, Node exits with code 0 while this promise is pending, if nothing else is left to do.
      child.ref()
      report({ finished: true })
      child.stdin?.end()
      await ended
    },
  }
}

function writeLine(child: ChildProcess, order: Order): void {
  child.stdin?.write(`${JSON.stringify(order)}\n`)
}

async function main(): Promise<void> {
  const pids = new Set<number>()
  const directories = new Set<string>()
  let wasKilled = true
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line) as Order
    if ('kill' in order) pids.add(order.kill)
    else if ('forget' in order) pids.delete(order.forget)
    else if ('remove' in order) directories.add(order.remove)
    else wasKilled = false
  }
  for (const pid of pids) kill(pid)
  for (const directory of directories)
    await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  // The workers of a killed run end a little later than the run itself.
  for (let waits = 0; wasKilled && waits < 5; waits++) {
    await removeAbandoned()
    await pause(1_000)
  }
}

function kill(pid: number): void {
  try {
    // A postmaster stops its children on SIGQUIT; SIGKILL would orphan them.
    process.kill(pid, 'SIGQUIT')
  } catch {
    // The process has already ended.
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
