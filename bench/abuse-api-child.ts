/**
 * One tenant that abuses the API in every way: on request, runs for `run` milliseconds and reports the number of
 * answers by status.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'

interface Reported {
  readonly url: string
  readonly token: string
  readonly runMs: number
}

const mib = 1 << 20
/** The largest body that the server reads, and a larger one. */
const [whole, tooLarge] = [mib - 1024, 2 * mib]
const body = (bytes: number) => JSON.stringify({ name: 'x'.repeat(bytes), git_url: '' })
const bodies = [body(whole), body(tooLarge), `{"name":${'['.repeat(mib / 2)}`]
/** As large as the largest JSON body that any operation reads. */
const command = JSON.stringify({ command: ['x'.repeat(whole)] })
const connections = 32
const streams = 8

async function run({ url, token, runMs }: Reported): Promise<Record<string, number>> {
  const pool = new Pool(url, { connections: connections + streams })
  const answered: Record<string, number> = {}
  const count = (what: string) => (answered[what] = (answered[what] ?? 0) + 1)
  const end = AbortSignal.timeout(runMs)
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const ask = async (options: Parameters<Pool['request']>[0]) => {
    try {
      const { statusCode, body } = await pool.request({ ...options, signal: end })
      await body.dump()
      count(String(statusCode))
    } catch {
      if (end.aborted) return
      // For example, the server closes the connection of a body that it does not read.
      count('closed')
      await pause(1)
    }
  }
  const until = async (act: (n: number) => Promise<void>) => {
    for (let n = 0; !end.aborted; n++) await act(n)
  }
  const acts: readonly ((n: number) => Promise<void>)[] = [
    () => ask({ path: '/v1/apps', method: 'GET', headers }),
    n => ask({ path: '/v1/apps', method: 'POST', headers, body: bodies[n % bodies.length] ?? '' }),
    () => ask({ path: '/v1/apps/x/deployments/x/exec', method: 'POST', headers, body: command }),
    n =>
      ask({ path: '/v1/auth/login', method: 'POST', headers, body: `{"email":"a${n}@example.com","password":"${n}"}` }),
    n => ask({ path: '/v1/audit-logs?limit=1000', method: 'GET', headers: n % 2 === 0 ? headers : {} }),
  ]
  await Promise.all([
    ...Array.from({ length: connections }, (_, n) => until(acts[n % acts.length] ?? (async () => undefined))),
    ...Array.from({ length: streams }, () =>
      until(() => ask({ path: '/v1/deployments/events', method: 'GET', headers })),
    ),
  ])
  await pool.destroy()
  return answered
}

process.on('message', (reported: Reported) => void run(reported).then(answered => process.send?.(answered)))
