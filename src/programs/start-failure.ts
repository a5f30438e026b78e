/** Explains why a program did not start, in one sentence. */

import type { ProgramSetting } from './settings.ts'

/** The error of a failed start. Its message explains the failure in one sentence; its cause is only logged. */
export class StartFailed extends Error {
  constructor(cause: unknown) {
    super(startFailure(cause), { cause })
    this.name = 'StartFailed'
  }
}

interface SystemError extends Error {
  readonly code: string
  readonly path?: string
  readonly address?: string
  readonly port?: number
}

const isSystemError = (error: unknown): error is SystemError =>
  error instanceof Error && 'code' in error && typeof error.code === 'string'

const at = ({ address, port }: SystemError) => `${port ?? 'its port'}${address ? ` of ${address}` : ''}`
const place = ({ path }: SystemError) => path ?? 'the data directory'
const elsewhere = 'choose another directory with --data (MOTE_DATA)'

const sentences: Readonly<Record<string, (error: SystemError) => string>> = {
  EADDRINUSE: error => `Port ${at(error)} is in use: stop the program that listens there, or choose another port.`,
  EADDRNOTAVAIL: error => `${error.address ?? 'The address'} is not an address of this host: see --listen.`,
  EACCES: error =>
    error.port === undefined
      ? `This account may not use ${place(error)}: change its permissions, or ${elsewhere}.`
      : `This account may not listen on port ${at(error)}: choose a port above 1023.`,
  EPERM: error => `This account may not use ${place(error)}: change its permissions, or ${elsewhere}.`,
  EROFS: error => `${place(error)} is on a read-only file system: ${elsewhere}.`,
  ENOSPC: error => `No space is left for ${place(error)}: free some, or ${elsewhere}.`,
  EDQUOT: error => `The disk quota for ${place(error)} is used up: raise it, or ${elsewhere}.`,
  // Missing parent directories are created before, so ENOENT from mkdir means that the file system does not allow a
  // directory there.
  ENOENT: error => `${place(error)} cannot be created or is missing: check its path and file system, or ${elsewhere}.`,
  ENOTDIR: error => `${place(error)} is not a directory: ${elsewhere}.`,
  EEXIST: error => `${place(error)} is not a directory: ${elsewhere}.`,
  EMFILE: () => 'This process may not open more files: raise its limit (ulimit -n, LimitNOFILE).',
}

/**
 * A port is in use. `startFailure` prefers this error to the system error that caused it, because it names the setting.
 */
class PortInUse extends Error {}

/**
 * Starts a server. If one of its ports is in use, throws an error that names the port's setting.
 * @param ports on which the server listens, with their settings; 0 is any free port
 */
export async function namingPorts<T>(
  ports: ReadonlyArray<readonly [port: number, setting: ProgramSetting]>,
  start: () => Promise<T>,
): Promise<T> {
  try {
    return await start()
  } catch (cause) {
    const taken = isSystemError(cause) && cause.code === 'EADDRINUSE' && ports.find(([port]) => port === cause.port)
    if (!taken) throw cause
    const [port, { flag, env }] = taken
    throw new PortInUse(
      `Port ${port} is in use: stop the program that listens there, or choose another with ${flag.split(' ')[0]} (${env}).`,
      { cause },
    )
  }
}

/**
 * Returns one sentence about the first error in the cause chain that has an explanation, otherwise the outermost
 * message in one line.
 */
export function startFailure(thrown: unknown): string {
  const cause = first(thrown)
  for (let error: unknown = cause; error instanceof Error; error = error.cause) {
    if (error instanceof PortInUse) return error.message
    const sentence = isSystemError(error) ? sentences[error.code] : undefined
    if (sentence !== undefined && isSystemError(error)) return sentence(error)
  }
  const [head = '', ...rest] = (cause instanceof Error ? cause.message : String(cause))
    .trim()
    .split(/(?<!\s)\s*\n\s*(?:- )?/)
  const message = [head, rest.join('; ')].join(' ').trim()
  return message === '' ? 'The program could not start: run it with --log-level debug to see why.' : message
}

/** Returns the first of several errors: an error during the release must not hide why the start failed. */
function first(thrown: unknown): unknown {
  return thrown instanceof SuppressedError ? first(thrown.suppressed) : thrown
}
