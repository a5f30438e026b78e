/** Measures how a tenant that abuses the API affects another tenant. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { type Benchmark, median, summarise } from './benchmark.ts'
import { type Plane, post, startPlane, unlimited } from './plane.ts'
import { inTurns, scaled } from './turns.ts'

/**
 * The kinds of abuse. The benchmark runs all of them at once, and then one at a time to measure the CPU time of each.
 */
export const kinds = [
  'lists',
  'bodies',
  'values',
  'commands',
  'files',
  'variables',
  'logins',
  'audit',
  'anonymous',
  'streams',
] as const
export type Kind = (typeof kinds)[number]

const rounds = 7
const roundMs = 4_000
/** Number of rounds for each kind of abuse alone. */
const kindRounds = 3
const kindMs = 3_000
const auditRows = 5_000
/** Requests per second of the quiet tenant; its limit is 20. */
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

async function ask(
  pool: Pool,
  token: string,
  runMs: number,
): Promise<{ readonly ms: readonly number[]; readonly errors: number }> {
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
  for (let n = 0; performance.now() - began < runMs; n++) {
    under.push(one())
    await pause(Math.max(0, began + ((n + 1) * 1000) / perSecond - performance.now()))
  }
  await Promise.all(under)
  return { ms, errors }
}

interface Abuser {
  /** Abuses the API for this many milliseconds; returns the number of responses by status. */
  run(kind: Kind | 'all', runMs: number): Promise<Readonly<Record<string, number>>>
}

/** Starts the abuser as a separate process. Its account has an app and a long audit log. */
async function startAbuser(plane: Plane, cleanup: AsyncDisposableStack): Promise<Abuser> {
  await post(`${plane.url}/v1/auth/register`, { ...other, captcha_id: '', captcha_answer: '' })
  const token = String((await post(`${plane.url}/v1/auth/login`, other))['token'])
  await post(`${plane.url}/v1/apps`, { name: 'abuse', git_url: '' }, token)
  await plane.sql.query(
    `INSERT INTO audit_log (id, account_id, project_id, action, resource_type, resource_id, details)
     SELECT gen_random_uuid(), account_id, project_id, action, resource_type, resource_id, details
     FROM audit_log CROSS JOIN generate_series(1, $1) WHERE action = 'app.create'`,
    [auditRows],
  )
  const child = fork(join(import.meta.dirname, 'abuse-api-child.ts'))
  cleanup.defer(() => void child.kill())
  return {
    async run(kind, runMs) {
      child.send({ url: plane.url, token, runMs, kind })
      return (await once(child, 'message'))[0]
    },
  }
}

export const abuseApi: Benchmark = {
  name: 'abuse-api',
  goal: 'while a tenant abuses the API in every way, other tenants see at most twice their p99 and no error',
  how: `Two accounts are each limited to 20 requests per second. The quiet one lists its apps ${perSecond} times per second. In every second round the abuser sends as many requests as it can over 40 connections: lists, bodies of up to 2 MiB, nested bodies and bodies of many values, commands of 256 KiB, files of 1 MiB, variables of 64 KiB, lists of 1,000 audit entries, logins with wrong passwords, requests without a credential, and event streams. Afterwards each kind runs alone. The cost for the event loop is the CPU time of its thread, which other load does not change.`,
  reading:
    'The rate limits apply, and no request of the quiet tenant failed. With 60 requests per round the p99 is the slowest request, so it depends on other load; the figures of the event loop do not. With real-time priority for the control plane and the quiet client (2026-11-25), the ratio of the two p99 (with and without the abuse) was 12.3 before a tenant had a share of four requests at a time and large answers counted as several requests, and 3.1 and 1.5 in two runs after; lists of the audit log used 40 % of a core before, 8 % after. The longest computations that remain are garbage collections of up to 20 ms, after bodies of 1 MiB and lists of 1,000 entries.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const plane = cleanup.use(await startPlane({ ...unlimited, ...limits }))
    const abuser = await startAbuser(plane, cleanup)
    const pool = new Pool(plane.url, { connections: 20 })
    cleanup.defer(() => pool.close())
    const answered: Record<string, number> = {}
    const beside = async (kind: Kind | 'all' | 'nothing', runMs: number) => {
      await plane.turns()
      const over = kind === 'nothing' ? {} : abuser.run(kind, runMs)
      const asked = await ask(pool, plane.jwt, runMs)
      const statuses = await over
      return { ...asked, statuses, ...(await plane.turns()) }
    }
    const found = await inTurns(rounds, {
      quiet: () => beside('nothing', roundMs),
      async abuse() {
        const served = await beside('all', roundMs)
        for (const [what, count] of Object.entries(served.statuses))
          answered[what] = (answered[what] ?? 0) + Number(count)
        return served
      },
    })
    const all = (served: readonly { readonly ms: readonly number[] }[]) => served.flatMap(({ ms }) => ms)
    report.samples('alone', 'ms', all(found.quiet))
    report.samples('during the abuse', 'ms', all(found.abuse))
    report.note(`responses to the abuser, by status: ${textOf(answered)}`)
    const ratios = found.abuse.map(({ ms }, n) => summarise(ms).p99 / summarise(found.quiet[n]?.ms ?? []).p99)
    report.verdict(
      "p99 of the quiet tenant's requests during the abuse / without it, median of the rounds",
      median(ratios),
      2,
    )
    const errors = found.abuse.reduce((sum, served) => sum + served.errors, 0)
    report.verdict('failed requests of the quiet tenant', errors, 0)
    const longest = (served: readonly { readonly longestMs: number }[]) =>
      Math.max(...served.map(({ longestMs }) => longestMs))
    report.verdict(
      "longest computation on the control plane's event loop during the abuse, ms",
      longest(found.abuse),
      50,
    )
    for (const kind of kinds) {
      const served = []
      for (let round = 0; round < scaled(kindRounds); round++) served.push(await beside(kind, kindMs))
      const share = median(served.map(({ cpuMs }) => (100 * cpuMs) / kindMs))
      report.note(
        `only ${kind}: longest computation ${longest(served).toFixed(1)} ms, ${share.toFixed(0)} % of a core, p99 of the quiet tenant ${summarise(all(served)).p99.toFixed(1)} ms; responses by status: ${textOf(served[0]?.statuses ?? {})}`,
      )
    }
  },
}

const textOf = (answered: Readonly<Record<string, number>>) =>
  Object.entries(answered)
    .map(([what, count]) => `${count} x ${what}`)
    .join(', ')
