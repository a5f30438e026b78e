/**
 * Sends requests over kept-alive connections, and runs the bare Node server that answers with the same bytes as the
 * product.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Pool } from 'undici'
import { cpuMsOf } from './process.ts'

export interface Ask {
  readonly path: string
  /** Returns a different path for each request. */
  readonly paths?: (request: number) => string
  readonly method?: 'GET' | 'POST'
  readonly token?: string
  readonly body?: () => object
  /** Expected status of every response; default 200. */
  readonly status?: number
}

export interface Turn {
  readonly perSecond: number
  /** Duration of each request in milliseconds. */
  readonly ms: readonly number[]
}

/** The URL of a server, or the path of a peer's Unix socket. */
export type Origin = string | { readonly socketPath: string }

/**
 * Sends the requests, with `inFlight` of them in progress at a time.
 * @throws Error if a response has an unexpected status
 */
export async function drive(
  origin: Origin,
  ask: Ask,
  load: { readonly requests: number; readonly inFlight: number },
): Promise<Turn> {
  const options = { connections: load.inFlight }
  const pool =
    typeof origin === 'string'
      ? new Pool(origin, options)
      : new Pool('http://peer', { ...options, socketPath: origin.socketPath })
  const headers = {
    ...(ask.token === undefined ? {} : { authorization: `Bearer ${ask.token}` }),
    ...(ask.body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  const ms: number[] = []
  let left = load.requests
  const worker = async () => {
    while (left-- > 0) {
      const began = performance.now()
      const body = ask.body === undefined ? {} : { body: JSON.stringify(ask.body()) }
      const path = ask.paths?.(left) ?? ask.path
      const answer = await pool.request({ path, method: ask.method ?? 'GET', headers, ...body })
      if (answer.statusCode !== (ask.status ?? 200))
        throw new Error(`${path} answered ${answer.statusCode}: ${await answer.body.text()}`)
      await answer.body.dump({ limit: 2 ** 30 })
      ms.push(performance.now() - began)
    }
  }
  const began = performance.now()
  await Promise.all(Array.from({ length: load.inFlight }, worker))
  const perSecond = load.requests / ((performance.now() - began) / 1000)
  await pool.close()
  return { perSecond, ms }
}

/** Returns the milliseconds per request: the inverse of the rate, with several requests in progress at a time. */
export const msOfEach = async (...asked: Parameters<typeof drive>): Promise<number> =>
  1000 / (await drive(...asked)).perSecond

/** Returns the body of the server's response as text. */
export async function answerOf(origin: string, ask: Ask): Promise<string> {
  const response = await fetch(`${origin}${ask.path}`, {
    headers: ask.token === undefined ? {} : { authorization: `Bearer ${ask.token}` },
  })
  if (!response.ok) throw new Error(`${ask.path} answered ${response.status}: ${await response.text()}`)
  return response.text()
}

export interface Floor extends AsyncDisposable {
  readonly url: string
  cpuMs(): number
}

/** Starts a bare Node server that answers every request with this text. */
export async function startFloor(text: string): Promise<Floor> {
  const child = fork(join(import.meta.dirname, 'floor-child.ts'))
  child.send(text)
  return floorOf(child)
}

/** Returns a server that runs in a child process, which sends its port in its first message. */
export async function floorOf(child: ChildProcess): Promise<Floor> {
  const [port] = await once(child, 'message')
  return {
    url: `http://127.0.0.1:${port}`,
    cpuMs: () => cpuMsOf(child.pid ?? 0),
    async [Symbol.asyncDispose]() {
      child.kill()
      await once(child, 'exit')
    },
  }
}
