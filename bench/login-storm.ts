/**
 * Measures the duration of `GET /v1/apps` while twenty users sign in continuously, relative to its duration without
 * sign-ins.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { startBenchApi, type BenchApi } from './api.ts'
import { type Benchmark, summarise } from './benchmark.ts'

const stormers = 20
const requestsPerRound = 400
const rounds = 5
const betweenMs = 5

async function timesOf(api: BenchApi, stormers: number): Promise<{ readonly ms: number[]; readonly logins: number }> {
  let storming = true
  let logins = 0
  const storm = Array.from({ length: stormers }, async () => {
    while (storming) {
      await api.app.inject({ method: 'POST', url: '/v1/auth/login', payload: api.person })
      logins++
    }
  })
  const ms: number[] = []
  for (let i = 0; i < requestsPerRound; i++) {
    const began = performance.now()
    const { statusCode } = await api.app.inject({ url: '/v1/apps', headers: { authorization: `Bearer ${api.jwt}` } })
    if (statusCode !== 200) throw new Error(`GET /v1/apps answered ${statusCode}`)
    ms.push(performance.now() - began)
    await pause(betweenMs)
  }
  storming = false
  await Promise.all(storm)
  return { ms, logins }
}

export const loginStorm: Benchmark = {
  name: 'login-storm',
  goal: 'p99 of GET /v1/apps during a burst of logins at most 2 times the p99 when idle',
  covers: ['B14'],
  how: 'Twenty clients sign in without pauses while another one lists apps, alternating with rounds without sign-ins. Passwords are hashed in worker threads.',
  async run(report) {
    await using api = await startBenchApi()
    for (let i = 0; i < 5; i++) await api.post('/v1/apps', { name: `app-${i}`, git_url: '' }, api.jwt)
    await timesOf(api, stormers)
    const idle: number[][] = []
    const storm: number[][] = []
    // Alternate the measurements with and without sign-ins, so that other load affects both.
    for (let round = 0; round < rounds; round++) {
      idle.push((await timesOf(api, 0)).ms)
      storm.push((await timesOf(api, stormers)).ms)
    }
    report.samples('idle', 'ms', idle.flat())
    report.samples('login storm', 'ms', storm.flat())
    const ratios = idle.map((ms, i) => summarise(storm[i] ?? []).p99 / summarise(ms).p99)
    report.verdict(
      'p99 of GET /v1/apps during the logins / without them, median of the rounds',
      summarise(ratios).median,
      2,
    )
  },
}
