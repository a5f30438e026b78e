import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { identifyProcess, type ProcessIdentity } from '../../../lib/process-identity.ts'

export const qemuBinary = 'qemu-system-x86_64'

export interface QemuProcess {
  readonly identity: ProcessIdentity
  /** Rejects when QEMU ends; never resolves. */
  readonly ended: Promise<never>
}

/**
 * Starts QEMU in a session of its own, so that it outlives the agent, with the VM's directory as working directory.
 * @throws Error when the program is not installed.
 */
export async function spawnQemu(
  dir: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<QemuProcess> {
  const errors = openSync(join(dir, 'qemu.err'), 'w', 0o600)
  try {
    const stdio = ['ignore', 'ignore', errors] as const
    const child = spawn(qemuBinary, args, {
      cwd: dir,
      detached: true,
      stdio: [...stdio],
      env: { ...process.env, ...env },
    })
    const started = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<never>()
    ended.promise.catch(() => undefined)
    child.once('spawn', started.resolve)
    child.once('error', error => {
      started.reject(error)
      ended.reject(error)
    })
    child.once('exit', (code, signal) => {
      lastError(dir).then(text => ended.reject(new Error(`QEMU ended (${code ?? signal}): ${text}`)), ended.reject)
    })
    await started.promise
    child.unref()
    const identity = child.pid === undefined ? undefined : identifyProcess(child.pid)
    return { identity: identity ?? (await ended.promise), ended: ended.promise }
  } finally {
    closeSync(errors)
  }
}

async function lastError(dir: string): Promise<string> {
  const file = await open(join(dir, 'qemu.err'))
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(2048), 0, 2048, 0)
    return buffer.toString('utf8', 0, bytesRead).trim() || 'no message'
  } finally {
    await file.close()
  }
}
