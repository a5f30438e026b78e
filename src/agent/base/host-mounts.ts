/**
 * Mounts that outlive the agent. systemd gives each start of the agent's unit its own mount namespace. The next agent
 * does not see what is mounted there, although sandboxes still use it. So the agent mounts in the namespace of the
 * host's first process, from where mounts propagate to the agent and to its sandboxes (mount_namespaces(7)).
 */
import { readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'

interface Command {
  readonly program: string
  readonly args: readonly string[]
}

const hostNamespace = '/proc/1/ns/mnt'

/**
 * Wraps a command that changes mounts at or below `dir`, so that it runs in the host's mount namespace. Returns it
 * unchanged if the agent shares the host's mounts, or if the path is a different directory there: the agent may run in
 * a container that sees the host's processes.
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
    return false // the agent lacks CAP_SYS_PTRACE, or the host has no such directory
  }
}
