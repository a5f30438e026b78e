/**
 * A child process that cleans up after a test process, even if that is killed: when its stdin is closed, it kills the
 * registered processes, removes the registered directories, and removes what agents of killed test processes have left.
 * `startReaper` runs this file as a program.
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
  /** Unregisters a process that has exited, so that a later process with the same PID is not killed. */
  forget(pid: number): void
  /** Cleans up now. Resolves once everything is removed. */
  finish(): Promise<void>
}

type Order =
  | { readonly kill: number }
  | { readonly remove: string }
  | { readonly forget: number }
  /** The test process ends normally, that is, it was not killed. */
  | { readonly finished: true }

export function startReaper(): Reaper {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
    stdio: ['pipe', 'ignore', 'inherit'],
    // Start it in a process group of its own: Ctrl-C kills all processes of the terminal's foreground process group.
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
      // Keep this process alive until the reaper exits: Node would exit with code 0 although this promise is pending.
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
  // Repeat, because the worker processes of a killed test run exit a little later than the run itself.
  for (let waits = 0; wasKilled && waits < 5; waits++) {
    await removeAbandoned()
    await pause(1_000)
  }
}

function kill(pid: number): void {
  try {
    // Send SIGQUIT, on which a PostgreSQL server kills its children. SIGKILL would orphan them.
    process.kill(pid, 'SIGQUIT')
  } catch {
    // The process has already exited.
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
