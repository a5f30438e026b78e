/**
 * Mounts that outlive the agent. systemd gives each start of the agent's unit a mount namespace of its own: what the
 * agent mounts there is unknown to the next agent, while sandboxes still use it. So the agent mounts in the namespace of
 * the host's first process, from where mounts propagate to the agent and to its sandboxes (mount_namespaces(7)).
 */
import { readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'

interface Command {
  readonly program: string
  readonly args: readonly string[]
}

const hostNamespace = '/proc/1/ns/mnt'

/**
 * Returns the command that changes mounts at or below `dir` for the host; the command itself if the agent shares the
 * host's mounts, or if the directory is another one there, as for an agent in a container that sees the host's processes.
 */
export function inHostMounts(dir: string, command: Command): Command {
  if (!isElsewhere(dir)) return command
  return { program: 'nsenter', args: [`--mount=${hostNamespace}`, '--', command.program, ...command.args] }
}

function isElsewhere(dir: string): boolean {
  try {
    if (readlinkSync(hostNamespace) === readlinkSync('/proc/self/ns/mnt')) return false
    const [here, there] = [statSync(dir), statSync(join('/proc/1/root', dir))]
    return here.dev === there.dev && here.ino === there.ino
  } catch {
    return false // without CAP_SYS_PTRACE, or not the same directories
  }
}
