/** Measures how a tenant that sends ten times its rate limit affects another tenant. */
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { type Benchmark, median, summarise } from './benchmark.ts'
import { post, startPlane, unlimited } from './plane.ts'
import { inTurns } from './turns.ts'

const rounds = 7
const roundMs = 2500
const allowedPerSecond = 20
/** Requests per second of the tenant that stays within its limit. */
const quietPerSecond = 15
const other = { email: 'noisy@example.com', password: 'another long sentence of the bench' }

interface Asked {
  readonly ms: readonly number[]
  readonly failed: number
  readonly refused: number
}

/** Sends requests of a tenant at a fixed rate, without waiting for responses. */
async function ask(pool: Pool, token: string, perSecond: number): Promise<Asked> {
  const ms: number[] = []
  let failed = 0
  let refused = 0
  const one = async () => {
    const began = performance.now()
    const headers = { authorization: `Bearer ${token}` }
    const { statusCode, body } = await pool.request({ path: '/v1/apps', method: 'GET', headers })
    await body.dump()
    if (statusCode === 429) refused++
    else if (statusCode !== 200) failed++
    ms.push(performance.now() - began)
  }
  const began = performance.now()
  const under: Promise<void>[] = []
  for (let n = 0; performance.now() - began < roundMs; n++) {
    under.push(one())
    await pause(Math.max(0, began + ((n + 1) * 1000) / perSecond - performance.now()))
  }
  await Promise.all(under)
  return { ms, failed, refused }
}

export const noisy: Benchmark = {
  name: 'noisy',
  goal: 'while a tenant sends ten times its rate limit, other tenants see at most twice their p99 and no error',
  covers: ['B24'],
  how: `Two accounts have a limit of ${allowedPerSecond} requests per second each. One lists its apps ${quietPerSecond} times per second; in every second round the other one sends ${10 * allowedPerSecond} requests per second. Both clients run in this process on the same two cores.`,
  reading:
    'The noisy client runs in the same process as the quiet one and uses as much CPU as the server that rejects its requests: part of the delay is the benchmark itself.',
  async run(report) {
    await using plane = await startPlane({ ...unlimited, MOTE_RATE_TENANT: String(allowedPerSecond * 60) })
    await post(`${plane.url}/v1/auth/register`, { ...other, captcha_id: '', captcha_answer: '' })
    const loud = String((await post(`${plane.url}/v1/auth/login`, other))['token'])
    const pools = [new Pool(plane.url, { connections: 20 }), new Pool(plane.url, { connections: 20 })] as const
    await using cleanup = new AsyncDisposableStack()
    cleanup.defer(async () => {
      for (const pool of pools) await pool.close()
    })
    // Begin to measure after the first burst of the noisy tenant, which is within its limit.
    while ((await ask(pools[1], loud, 10 * allowedPerSecond)).refused === 0);
    let refused = 0
    const found = await inTurns(rounds, {
      quiet: () => ask(pools[0], plane.jwt, quietPerSecond),
      noise: async () => {
        const [mine, theirs] = await Promise.all([
          ask(pools[0], plane.jwt, quietPerSecond),
          ask(pools[1], loud, 10 * allowedPerSecond),
        ])
        refused += theirs.refused
        return mine
      },
    })
    const all = (asked: readonly Asked[]) => asked.flatMap(({ ms }) => ms)
    const quiet = report.samples('alone', 'ms', all(found.quiet))
    const loudly = report.samples('beside the noise', 'ms', all(found.noise))
    const ratios = found.noise.map(({ ms }, n) => summarise(ms).p99 / summarise(found.quiet[n]?.ms ?? []).p99)
    report.note(
      `${refused} requests of the noisy tenant were rejected; p99 of the quiet tenant over all rounds, beside the noisy tenant / alone: ${(loudly.p99 / quiet.p99).toFixed(2)}`,
    )
    report.verdict(
      "p99 of the quiet tenant's requests beside the noisy tenant / alone, median of the rounds",
      median(ratios),
      2,
    )
    const errors = found.noise.reduce((sum, { failed, refused: own }) => sum + failed + own, 0)
    report.verdict('failed requests of the quiet tenant', errors, 0)
  },
}
