/** One tenant at full abuse of the API, and the effect on another tenant. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { type Benchmark, median, summarise } from './benchmark.ts'
import { post, startPlane, unlimited } from './plane.ts'
import { inTurns } from './turns.ts'

const rounds = 7
const roundMs = 4_000
/** Request rate of the quiet tenant; the limit is 20. */
const perSecond = 15
const limits = {
  MOTE_RATE_TENANT: String(20 * 60),
  MOTE_RATE_ANONYMOUS: '120',
  MOTE_RATE_LOGIN: '10',
  MOTE_RATE_CREATES: '5',
  MOTE_STREAMS_PER_USER: '50',
  MOTE_RATE_REFUSAL_DELAY: '1000',
}
const other = { email: 'abuse@example.com', password: 'another long sentence of the bench' }

async function ask(pool: Pool, token: string): Promise<{ readonly ms: readonly number[]; readonly errors: number }> {
  const ms: number[] = []
  let errors = 0
  const one = async () => {
    const began = performance.now()
    const { statusCode, body } = await pool.request({
      path: '/v1/apps',
      method: 'GET',
      headers: { authorization: `Bearer ${token}` },
    })
    await body.dump()
    if (statusCode !== 200) errors++
    ms.push(performance.now() - began)
  }
  const began = performance.now()
  const under: Promise<void>[] = []
  for (let n = 0; performance.now() - began < roundMs; n++) {
    under.push(one())
    await pause(Math.max(0, began + ((n + 1) * 1000) / perSecond - performance.now()))
  }
  await Promise.all(under)
  return { ms, errors }
}

export const abuseApi: Benchmark = {
  name: 'abuse-api',
  goal: 'a tenant abuses the API in every way: others see at most twice their p99 and no error',
  how: `Two accounts with a limit of 20 requests per second each. One lists its apps ${perSecond} times per second. In every second round a process of the other one keeps 40 connections as busy as possible: lists, bodies of 1 and 2 MiB, nested JSON bodies, logins with wrong passwords, requests without a credential, and event streams.`,
  reading:
    'The rate limits apply, and no request of the quiet tenant failed. Delaying refusals (429) reduced its median latency from 34 ms to 2.2 ms, the value without abuse, and the number of refusals from 29,389 to 1,694. The server scans bodies before it parses them. The p99 misses the goal; with 60 requests per round it is the slowest request. The abuser may still send 20 requests a second, and each body of 1 MiB blocks the event loop for some milliseconds while it is read and parsed. Each kind by itself, at a load of 6: lists 0.9 times, logins 0.4 times, bodies 23 times before they were scanned first, lists of the audit log 4.8 times. A smaller limit for bodies of most operations, or a thread that parses large ones, would be next.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const plane = cleanup.use(await startPlane({ ...unlimited, ...limits }))
    await post(`${plane.url}/v1/auth/register`, { ...other, captcha_id: '', captcha_answer: '' })
    const token = String((await post(`${plane.url}/v1/auth/login`, other))['token'])
    const child = fork(join(import.meta.dirname, 'abuse-api-child.ts'))
    cleanup.defer(() => void child.kill())
    const pool = new Pool(plane.url, { connections: 20 })
    cleanup.defer(() => pool.close())
    const answered: Record<string, number> = {}
    const found = await inTurns(rounds, {
      quiet: () => ask(pool, plane.jwt),
      async abuse() {
        child.send({ url: plane.url, token, runMs: roundMs })
        const over = once(child, 'message')
        const mine = await ask(pool, plane.jwt)
        for (const [what, count] of Object.entries((await over)[0]))
          answered[what] = (answered[what] ?? 0) + Number(count)
        return mine
      },
    })
    report.samples(
      'alone',
      'ms',
      found.quiet.flatMap(({ ms }) => ms),
    )
    report.samples(
      'during the abuse',
      'ms',
      found.abuse.flatMap(({ ms }) => ms),
    )
    report.note(
      `answers to the abuser: ${Object.entries(answered)
        .map(([what, count]) => `${what} ${count} times`)
        .join(', ')}`,
    )
    const ratios = found.abuse.map(({ ms }, n) => summarise(ms).p99 / summarise(found.quiet[n]?.ms ?? []).p99)
    report.verdict('p99 during the abuse / alone, median of the rounds', median(ratios), 2)
    report.verdict(
      'errors of the quiet tenant',
      found.abuse.reduce((sum, { errors }) => sum + errors, 0),
      0,
    )
  },
}
