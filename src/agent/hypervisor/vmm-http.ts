import { request as send } from 'node:http'
import { Duplex } from 'node:stream'
import { connectIn } from '../../lib/short-socket.ts'

export type VmmMethod = 'GET' | 'PUT' | 'PATCH' | 'DELETE'

/** An API call that the VMM has refused. `reason` is the VMM's own text. */
export class VmmError extends Error {
  readonly status: number
  readonly reason: string
  constructor(call: string, status: number, reason: string) {
    super(`${call} was refused (${status}): ${reason}`)
    this.name = 'VmmError'
    this.status = status
    this.reason = reason
  }
}

export interface VmmHttp {
  /**
   * Makes one API call and returns the parsed answer; undefined if it has no body. Calls are never retried.
   * @throws VmmError when the VMM refuses the call, Error when it cannot be reached or does not answer in time
   */
  call(method: VmmMethod, path: string, body?: unknown, options?: { readonly timeoutMs: number }): Promise<unknown>
}

/** Timeout of an API call: longer than the longest time that a VMM waits for its vCPUs (30 s). */
const defaultTimeoutMs = 35_000

/**
 * Speaks HTTP over the unix socket `name` in the directory. Each call opens a new connection: calls are rare, and an
 * agent may restart.
 */
export function vmmHttp(program: string, dir: string, name: string): VmmHttp {
  return {
    async call(method, path, body, { timeoutMs } = { timeoutMs: defaultTimeoutMs }) {
      const label = `${program}: ${method} ${path}`
      const { status, text } = await exchange(await connectIn(dir, name), { label, method, path, body, timeoutMs })
      if (status >= 200 && status < 300) return text === '' ? undefined : JSON.parse(text)
      throw new VmmError(label, status, reasonOf(text))
    },
  }
}

/**
 * Maximum length of an answer, because a guest may have compromised the VMM. The description of a VM with all its
 * devices has about ten KiB; parsing a MiB of JSON may take a second.
 */
const maxAnswerBytes = 128 << 10

interface Exchange {
  readonly label: string
  readonly method: VmmMethod
  readonly path: string
  readonly body: unknown
  readonly timeoutMs: number
}

function exchange(
  socket: Duplex,
  { label, method, path, body, timeoutMs }: Exchange,
): Promise<{ status: number; text: string }> {
  const data = body === undefined ? undefined : JSON.stringify(body)
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const request = send({
    method,
    path,
    createConnection: () => socket,
    signal: AbortSignal.timeout(timeoutMs),
    headers: {
      host: 'localhost',
      accept: 'application/json',
      connection: 'close',
      ...(data === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(data) }),
    },
  })
  request.on('error', cause => reject(new Error(`${label}: ${cause.message}`, { cause })))
  request.on('response', response => {
    const parts: Buffer[] = []
    let bytes = 0
    response.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes > maxAnswerBytes) request.destroy(new Error('the answer is too long'))
      else parts.push(part)
    })
    response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString('utf8') }))
    response.on('error', reject)
  })
  request.end(data)
  return promise.finally(() => socket.destroy())
}

/**
 * Returns the VMM's reason, truncated. Firecracker answers `{"fault_message": text}`, Cloud Hypervisor an array of
 * texts with the root cause last.
 */
function reasonOf(text: string): string {
  return fullReasonOf(text).slice(0, maxReasonChars)
}

const maxReasonChars = 1000

function fullReasonOf(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    if (Array.isArray(value)) return value.join(': ')
    if (typeof value === 'object' && value !== null && 'fault_message' in value) return String(value.fault_message)
    return text
  } catch {
    return text || 'no reason given'
  }
}

/** Returns the value if it is a JSON object, otherwise an empty object. */
export function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
