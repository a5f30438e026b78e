import { setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { isRunning, type ProcessIdentity } from '../../../lib/process-identity.ts'
import { type Console, openConsole } from '../console.ts'
import { runDir } from '../isolation.ts'

/**
 * The serial consoles of the VMs that this agent started. Each is a socket, so that a guest's output cannot fill a
 * disk.
 */
export interface Consoles {
  /** Reads the VM's console from the creation of its socket until the VMM exits. */
  follow(vmDir: string, process: ProcessIdentity): void
  tail(vmDir: string): string
  forget(vmDir: string): void
}

const lookMs = 10
/** How long to wait for the console's socket. After this time the guest has booted, and its console is not needed. */
const patienceMs = 120_000

export function consoles(): Consoles {
  const known = new Map<string, Console>()
  const find = async (vmDir: string, process: ProcessIdentity) => {
    const deadline = performance.now() + patienceMs
    while (isRunning(process) && performance.now() < deadline) {
      const console = await openConsole(join(vmDir, runDir))
      if (console.connected) {
        known.set(vmDir, console)
        return
      }
      await sleep(lookMs, undefined, { ref: false })
    }
  }
  const forget = (vmDir: string) => {
    known.get(vmDir)?.close()
    known.delete(vmDir)
  }
  return {
    follow(vmDir, process) {
      forget(vmDir)
      void find(vmDir, process)
    },
    forget,
    tail: vmDir => known.get(vmDir)?.tail() ?? '',
  }
}
