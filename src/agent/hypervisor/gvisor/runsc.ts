/** Runs gVisor's program `runsc`: each call is one short-lived process that talks to a sandbox. */
import { basename, dirname, join } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { CommandError, run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'

/** The oldest release that works. Debian 12's package (2022) has neither systrap nor root file systems on EROFS. */
export const oldestRunsc = '20250820.0'

/** Runs `runsc` commands on the sandboxes of one agent. */
export interface Runsc {
  readonly program: string
  /** The options that every call of `runsc` needs. */
  readonly options: readonly string[]
  pause(id: string): Promise<void>
  resume(id: string): Promise<void>
  inspect(id: string): Promise<'running' | 'paused' | 'stopped'>
  /** Writes the sandbox's state into the directory. The sandbox keeps running. */
  checkpoint(id: string, dir: string): Promise<void>
  /** Kills the sandbox and removes the files that runsc keeps about it. Idempotent. */
  remove(id: string): Promise<void>
  /** Returns the ids of this agent's sandboxes, including stopped ones. Empty if runsc is not installed. */
  list(): Promise<readonly string[]>
}

const commandMs = 30_000
const checkpointMs = 600_000

const State = Type.Object({ status: Type.String() })
const States = Type.Union([Type.Null(), Type.Array(Type.Object({ id: Type.String() }))])

/**
 * @param program path of runsc, which need not exist
 * @param root directory of runsc's own files. All calls about a sandbox need the same directory
 */
export function openRunsc(program: string, root: string): Runsc {
  const options = ['--root', root, '--directfs=false', '--net-raw', '--allow-suid']
  const call = (args: readonly string[], timeoutMs = commandMs) => run(program, [...options, ...args], { timeoutMs })
  return {
    program,
    options,
    pause: async id => void (await call(['pause', id])),
    resume: async id => void (await call(['resume', id])),
    async inspect(id) {
      const state: unknown = JSON.parse(await call(['state', id]))
      if (!Value.Check(State, state)) throw new Error('runsc state has no status')
      // A sandbox that waits for a checkpoint from another host has no guest yet.
      if (state.status === 'stopped' || state.status === 'created') return 'stopped'
      return state.status === 'paused' ? 'paused' : 'running'
    },
    async checkpoint(id, dir) {
      // Write no compressed files, so that a restored sandbox can run while its memory is still being read.
      const how = ['--compression', 'none', '--exclude-committed-zero-pages', '--leave-running']
      await call(['checkpoint', ...how, '--image-path', dir, id], checkpointMs)
    },
    async remove(id) {
      await call(['delete', '-force', id]).catch((error: unknown) => {
        if (!(error instanceof CommandError && /does not exist/.test(error.stderr))) throw error
      })
    },
    async list() {
      const text = await call(['list', '-format', 'json']).catch((error: unknown) => {
        if (hasCode(error, 'ENOENT')) return '[]'
        throw error
      })
      const states: unknown = JSON.parse(text)
      return Value.Check(States, states) ? (states ?? []).map(({ id }) => id) : []
    },
  }
}

/** Returns the release (`20260223.0`), or for a build from Go's module the name of the program's directory. */
export async function runscVersion(program: string): Promise<string> {
  const text = await run(program, ['--version'], { timeoutMs: commandMs })
  const version = /^runsc version (?:release-)?(\S+)$/m.exec(text)?.[1] ?? 'unknown'
  return version === 'VERSION_MISSING' ? basename(dirname(program)) : version
}

/** Directory in which `runsc` keeps its own files about this agent's sandboxes. */
export const runscRoot = (dataDir: string): string => join(dataDir, 'runsc')
