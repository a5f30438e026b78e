/**
 * Simulates a tenant that abuses the API: on request of the parent process, runs one kind of abuse, or all kinds at
 * once, for `runMs`, and reports the number of responses by status.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Kind } from './abuse-api.ts'

interface Reported {
  readonly url: string
  readonly token: string
  readonly runMs: number
  readonly kind: Kind | 'all'
}

type Asked = Parameters<Pool['request']>[0]

const mib = 1 << 20
const kib = 1 << 10
/** Size of the largest body that any operation reads as JSON, and a larger size. */
const [whole, tooLarge] = [mib - 1024, 2 * mib]
const named = (bytes: number) => JSON.stringify({ name: 'x'.repeat(bytes), git_url: '' })
const bodies = [named(whole), named(tooLarge), `{"name":${'['.repeat(mib / 2)}`, named(63 * kib)]
/** A body with the maximum number of values, of the kind that takes longest to validate. */
const values = JSON.stringify({ name: 'x', git_url: '', ports: Array.from({ length: 9_000 }, () => 'a'.repeat(2)) })
/** Bodies with a command slightly below the size limit: plain text, and written as JSON escapes. */
const words = JSON.stringify({ command: Array.from({ length: 3 }, () => 'x'.repeat(64 * kib)) })
const escapes = `{"command":["${'\\u0041'.repeat(40 * kib)}"]}`
const value = JSON.stringify({ value: 'x'.repeat(60 * kib) })
const file = (n: number) =>
  JSON.stringify({ path: '/etc/file', content: Buffer.alloc(500 * kib, n % 251).toString('base64') })
const connections = 32
const streams = 8
const id = '00000000-0000-4000-8000-000000000000'

type Act = (n: number, json: Readonly<Record<string, string>>) => Asked

const post = (path: string, body: string, headers: Readonly<Record<string, string>>): Asked => ({
  path,
  method: 'POST',
  headers,
  body,
})

const acts: Readonly<Record<Kind, Act>> = {
  lists: (_n, headers) => ({ path: '/v1/apps', method: 'GET', headers }),
  bodies: (n, json) => post('/v1/apps', bodies[n % bodies.length] ?? '', json),
  values: (_n, json) => post('/v1/apps', values, json),
  commands: (n, json) => post(`/v1/apps/abuse/deployments/${id}/exec`, n % 2 === 0 ? words : escapes, json),
  files: (n, json) => ({ path: '/v1/apps/abuse/files', method: 'PUT', headers: json, body: file(n) }),
  variables: (_n, json) => ({ path: `/v1/apps/abuse/env/V`, method: 'PUT', headers: json, body: value }),
  logins: (n, json) => post('/v1/auth/login', `{"email":"a${n}@example.com","password":"${n}"}`, json),
  audit: (_n, headers) => ({ path: '/v1/audit-logs?limit=1000', method: 'GET', headers }),
  anonymous: () => ({ path: '/v1/audit-logs?limit=1000', method: 'GET' }),
  streams: (_n, headers) => ({ path: '/v1/deployments/events', method: 'GET', headers }),
}

async function run({ url, token, runMs, kind }: Reported): Promise<Record<string, number>> {
  const pool = new Pool(url, { connections: connections + streams })
  const answered: Record<string, number> = {}
  const count = (what: string) => (answered[what] = (answered[what] ?? 0) + 1)
  const end = AbortSignal.timeout(runMs)
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const ask = async (options: Asked) => {
    try {
      const { statusCode, body } = await pool.request({ ...options, signal: end })
      await body.dump()
      count(String(statusCode))
    } catch {
      if (end.aborted) return
      // The request has failed, for example because the server closed the connection instead of reading the body.
      count('closed')
      await pause(1)
    }
  }
  const until = async (act: Act, first: number) => {
    for (let n = first; !end.aborted; n++) await ask(act(n, headers))
  }
  const chosen = kind === 'all' ? Object.values(acts) : [acts[kind]]
  await Promise.all(
    Array.from({ length: connections + streams }, (_, n) => until(chosen[n % chosen.length] ?? acts.lists, n)),
  )
  await pool.destroy()
  return answered
}

process.on('message', (reported: Reported) => void run(reported).then(answered => process.send?.(answered)))
