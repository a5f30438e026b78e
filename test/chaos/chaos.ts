/**
 * Kills random processes (control planes, agents, the bus) with SIGKILL while users work. Afterwards the installation
 * must converge to what it has acknowledged. Used by the test (for seconds) and the benchmark (for minutes).
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { subjects } from '../../src/contract/agent.ts'
import { type Db, statement } from '../../src/db/db.ts'
import { verifyAuditChain } from '../../src/control/audit/index.ts'
import { createVault } from '../../src/lib/vault.ts'
import { api } from '../support/api.ts'
import { type Random, random } from '../simulation/random.ts'
import { act, type Call, type Ledger, persistentCall, type Taste } from './client.ts'
import { type Cluster, type Program, type RealHypervisor, secretKey, startCluster } from './cluster.ts'
import { leftOver } from './left-over.ts'

export interface ChaosOptions {
  readonly database: { readonly url: string; readonly db: Db }
  readonly seconds: number
  readonly seed: number
  /** Mean time between two kills. */
  readonly killEveryMs: number
  readonly settleSeconds: number
  /**
   * Number of hosts with real VMs, in addition to the hosts with simulated VMs. If it is above 0, one user deploys to
   * them. Default: 0.
   */
  readonly realHosts?: number
  /** Hypervisor of the hosts with real VMs. Default: QEMU. */
  readonly hypervisor?: RealHypervisor
}

export interface ChaosResult {
  readonly kills: Readonly<Record<Program['kind'], number>>
  /** Number of times that an agent was down long enough for its host to be declared lost. */
  readonly hostsLost: number
  readonly acknowledged: number
  readonly repeated: number
  /** Time from the last kill until no fault was left. */
  readonly convergedSeconds: number
  /** Up to five of the faults that took longest to disappear. */
  readonly slowest: readonly string[]
  /** Deviations from the acknowledged state at the end; empty on success. */
  readonly faults: readonly string[]
}

const clients = 4
const hosts = 3
const hostTimeoutSeconds = 4

const simulated: Taste & { readonly pauseMs: number } = {
  deploy: n => ({ image: `example/app:${n}`, hypervisor: 'fake' }),
  mostApps: 4,
  mostReplicas: 3,
  pauseMs: 150,
}
/**
 * What users deploy to hosts with real VMs. The numbers are small, because the VMs share the cores with all other
 * processes.
 */
const realTaste = (hypervisor: RealHypervisor['name']): Taste & { readonly pauseMs: number } => ({
  deploy: () => ({ image: 'oci:hello', hypervisor }),
  mostApps: 2,
  mostReplicas: 1,
  pauseMs: hypervisor === 'qemu' ? 8000 : 1000,
})

export async function chaos(options: ChaosOptions): Promise<ChaosResult> {
  const dice = random(options.seed)
  const { url, db } = options.database
  const { realHosts = 0, hypervisor = { name: 'qemu' } } = options
  await using cluster = await startCluster({
    databaseUrl: url,
    planes: 2,
    hosts,
    realHosts,
    hypervisor,
    hostTimeoutSeconds,
  })
  const token = await signIn(cluster.planes[0] ?? '')
  const ending = new AbortController()
  const working = new AbortController()
  const ledgers: Ledger[] = []
  const calls: Call[] = []
  const bugs: string[] = []
  const tastes = [
    ...Array.from({ length: clients }, () => simulated),
    ...(realHosts > 0 ? [realTaste(hypervisor.name)] : []),
  ]
  const users = tastes.map(async (taste, n) => {
    const ledger: Ledger = { apps: new Map(), deleted: [], counts: { acknowledged: 0, refused: 0, repeated: 0 } }
    const own = random(options.seed * 1000 + n)
    const call = persistentCall(
      cluster.planes,
      token,
      own,
      { repeated: () => void ledger.counts.repeated++, onBug: what => void bugs.push(what) },
      ending.signal,
    )
    ledgers.push(ledger)
    calls.push(call)
    while (!working.signal.aborted) {
      await act(call, ledger, own, `u${n}`, taste)
      await pause(own.below(taste.pauseMs))
    }
  })
  const outcome = Promise.all(users)
  outcome.catch(() => working.abort())
  try {
    const { kills, hostsLost } = await killAtRandom(cluster, dice, options, working.signal)
    const begunMs = performance.now()
    working.abort()
    await outcome
    const { faults, slowest } = await untilNone(() => findFaults(cluster, db, calls, ledgers), options.settleSeconds)
    const sum = (pick: (ledger: Ledger) => number) => ledgers.reduce((total, ledger) => total + pick(ledger), 0)
    return {
      kills,
      hostsLost,
      acknowledged: sum(ledger => ledger.counts.acknowledged),
      repeated: sum(ledger => ledger.counts.repeated),
      convergedSeconds: (performance.now() - begunMs) / 1000,
      slowest,
      faults: faults.length + bugs.length > 0 ? [...faults, ...bugs, cluster.lately()] : [],
    }
  } finally {
    working.abort()
    ending.abort()
  }
}

async function signIn(plane: string): Promise<string> {
  const anonymous = api(plane)
  const account = { email: 'chaos@example.com', password: 'quartz-otter-lantern-42' }
  await anonymous.post('/v1/auth/register', { ...account, captcha_id: '', captcha_answer: '' })
  return (await anonymous.post('/v1/auth/login', account)).body.token
}

/** Kills random programs. Restarts each within a second, but some agents only after their host was declared lost. */
async function killAtRandom(cluster: Cluster, dice: Random, options: ChaosOptions, signal: AbortSignal) {
  const kills = { control: 0, agent: 0, bus: 0 }
  let hostsLost = 0
  const endMs = performance.now() + options.seconds * 1000
  const away = new Set<Promise<void>>()
  const down = new Set<string>()
  while (performance.now() < endMs && !signal.aborted) {
    await pause(options.killEveryMs * (0.5 + dice.next()))
    const victim = dice.pick(cluster.programs.filter(one => !down.has(one.name)))
    if (!victim) continue
    kills[victim.kind]++
    const long = victim.kind === 'agent' && dice.chance(0.1) && down.size === 0
    if (long) hostsLost++
    down.add(victim.name)
    const absence = (async () => {
      await victim.kill()
      await pause(long ? hostTimeoutSeconds * 2500 : dice.below(1000))
      victim.start()
      down.delete(victim.name)
    })()
    away.add(absence)
    void absence.finally(() => away.delete(absence))
  }
  await Promise.all(away)
  return { kills, hostsLost }
}

/** Repeats the search for faults until it finds none or time is up. */
async function untilNone(find: () => Promise<string[]>, seconds: number) {
  const endMs = performance.now() + seconds * 1000
  let slowest: string[] = []
  for (;;) {
    const faults = await find().catch((cause: unknown) => [`the search failed: ${String(cause)}`])
    if (faults.length === 0 || performance.now() > endMs) return { faults, slowest }
    slowest = faults.slice(0, 5)
    await pause(200)
  }
}

async function findFaults(cluster: Cluster, db: Db, calls: readonly Call[], ledgers: readonly Ledger[]) {
  const faults = await unrest(db)
  faults.push(...(await leaks(cluster, db)))
  faults.push(...(await leftOver(cluster.dir, await vmsOn(db, cluster.realHostIds))))
  for (const [n, ledger] of ledgers.entries()) {
    const call = calls[n]
    if (call) faults.push(...(await broken(call, ledger)))
  }
  const audit = await verifyAuditChain(db, createVault([secretKey]))
  if (!audit.intact) faults.push(`the audit log is not intact: ${JSON.stringify(audit)}`)
  return faults
}

const restless = statement<{ what: string }>(
  'chaos.restless',
  `SELECT kind || ' ' || id || ' ' || phase || ' ' || coalesce(last_error, '') AS what FROM machine
   WHERE (kind, phase) NOT IN (('vm', 'steady'), ('deployment', 'serving'), ('vm-snapshot', 'keeping'))
   UNION ALL SELECT 'stray ' || vm_id FROM stray
   UNION ALL SELECT 'reserved capacity of ' || name || ' differs from that of its VMs' FROM host h, LATERAL (
     SELECT coalesce(sum(vcpus), 0) AS vcpus, coalesce(sum(memory_mib), 0) AS memory, coalesce(sum(disk_mib), 0) AS disk
     FROM vm WHERE host_id = h.id) vms
   WHERE used_vcpus <> vms.vcpus OR used_memory_mib <> vms.memory OR used_disk_mib <> vms.disk`,
)
const placedVms = statement<{ id: string; host: string }>(
  'chaos.vms',
  `SELECT id, host_id AS host FROM vm WHERE want <> 'absent'`,
)

const vmsOn = async (db: Db, hostIds: readonly string[]) =>
  (await db.rows(placedVms)).flatMap(({ id, host }) => (hostIds.includes(host) ? [id] : []))

const unrest = async (db: Db) => (await db.rows(restless)).map(row => row.what)

const VmList = Type.Object({ vms: Type.Array(Type.Object({ vmId: Type.String(), state: Type.String() })) })

/** Returns VMs that run on a host but should not, and VMs that are missing on their host. */
async function leaks(cluster: Cluster, db: Db): Promise<string[]> {
  const wanted = new Set((await db.rows(placedVms)).map(vm => `${vm.host} ${vm.id}`))
  const faults: string[] = []
  for (const hostId of cluster.hostIds) {
    const raw = await cluster.bus.request(subjects.hostIn(hostId, 'vm.list'), {}, { timeoutMs: 2000 })
    for (const { vmId, state } of Value.Parse(VmList, raw).vms) {
      if (state === 'absent' || wanted.delete(`${hostId} ${vmId}`)) continue
      faults.push(`leaked: ${vmId} is ${state} on ${hostId}`)
    }
  }
  return [...faults, ...[...wanted].map(vm => `missing on its host: ${vm}`)]
}

/** Returns acknowledged writes that were lost. */
async function broken(call: Call, ledger: Ledger): Promise<string[]> {
  const faults: string[] = []
  const expect = (what: string, found: unknown, wanted: unknown) => {
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      faults.push(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`)
  }
  for (const name of ledger.deleted) expect(`${name} is deleted`, (await call('GET', `/v1/apps/${name}`)).status, 404)
  for (const app of ledger.apps.values()) {
    const found = await call('GET', `/v1/apps/${app.name}`)
    expect(`${app.name} exists`, found.status, 200)
    expect(`replicas of ${app.name}`, found.body.desired_replicas, app.replicas)
    const env = (await call('GET', `/v1/apps/${app.name}/env`)).body
    expect(`environment of ${app.name}`, env.map((one: { name: string }) => one.name).sort(), [...app.env].sort())
    const newest = app.jobs.at(-1)
    if (!newest) continue
    for (const job of app.jobs.slice(-5))
      expect(`${job} exists`, (await call('GET', `/v1/apps/${app.name}/deployments/${job}`)).status, 200)
    const { status } = (await call('GET', `/v1/apps/${app.name}/deployments/${newest}`)).body
    const ended = status === 'cancelled' ? 'stopped' : status
    expect(`${newest} of ${app.name}`, ended, app.newest)
  }
  return faults
}
