/**
 * A child that outlives a killed test run and cleans up after it. The test process holds the other end of its stdin;
 * when that closes, for whatever reason, the processes it was told of are killed and the directories removed.
 * Run as a program by `startReaper`.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface Reaper {
  killAtEnd(pid: number): void
  removeAtEnd(directory: string): void
  /** It was ended properly: a later process with the same number must be spared. */
  forget(pid: number): void
  /** Cleans up now. Resolves when all of it is gone. */
  finish(): Promise<void>
}

type Order = { readonly kill: number } | { readonly remove: string } | { readonly forget: number }

export function startReaper(): Reaper {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
    stdio: ['pipe', 'ignore', 'inherit'],
    // Ctrl-C goes to the whole process group of the terminal; the reaper must still be there afterwards.
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
      // Otherwise Node exits while this is awaited, with code 0, when nothing else is left to do.
      child.ref()
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
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line) as Order
    if ('kill' in order) pids.add(order.kill)
    else if ('forget' in order) pids.delete(order.forget)
    else directories.add(order.remove)
  }
  for (const pid of pids) kill(pid)
  for (const directory of directories)
    await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
}

function kill(pid: number): void {
  try {
    // A postmaster answers SIGQUIT by ending its children at once; SIGKILL would orphan them.
    process.kill(pid, 'SIGQUIT')
  } catch {
    // Gone already.
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
