/** What is still on a host that is being emptied, and what each VM there waits for: for the operator who wants it empty. */
import type { Sql } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { type HostRow, listHosts, listPools } from '../hosts/index.ts'
import { explain } from '../scheduler/place.ts'
import type { PoolView } from '../scheduler/pools.ts'
import { deploymentsOnHost } from '../vms/index.ts'
import { failedMoves, coMovedOf, moveObstacle, newestMigration } from '../migrations/index.ts'
import { placeFor, plansFor } from './moves.ts'
import type { Deployment, DeploymentVm } from './store.ts'
import * as store from './store.ts'

/** `moving`: it is on its way. `waiting`: its turn comes by itself. `staying`: only if somebody does something. */
export type LeaveState = 'moving' | 'waiting' | 'staying'

export interface Leaving {
  readonly vmId: string
  readonly projectId: string
  readonly appName: string
  readonly jobId: string
  readonly state: LeaveState
  /** What it waits for, and what to do; for people. */
  readonly reason: string
}

/** Each costs some statements: an operator reads no more of them than this. */
const mostReported = 100
const givenUpAfter = 2

/** In the order of their deployments; the first hundred. Takes its time: not for a transaction that holds anything. */
export async function leavingHost(sql: Sql, { config }: Pick<Deps, 'config'>, source: HostRow): Promise<Leaving[]> {
  const there = { hosts: await listHosts(sql, config.hostTimeoutSeconds), pools: await listPools(sql) }
  const all: Leaving[] = []
  for (const id of await deploymentsOnHost(sql, source.id)) {
    const d = await store.byId(sql, id)
    for (const vm of d?.vms ?? []) {
      if (!d || vm.hostId !== source.id) continue
      if (all.length === mostReported) return all
      const { state, reason } = await whyHere(sql, there, source, d, vm)
      all.push({ vmId: vm.id, projectId: d.projectId, appName: d.appName, jobId: d.jobId, state, reason })
    }
  }
  return all
}

type Why = Pick<Leaving, 'state' | 'reason'>
const waiting = (reason: string): Why => ({ state: 'waiting', reason })
const staying = (reason: string): Why => ({ state: 'staying', reason })

async function whyHere(
  sql: Sql,
  { hosts, pools }: { readonly hosts: readonly HostRow[]; readonly pools: readonly PoolView[] },
  source: HostRow,
  d: Deployment,
  vm: DeploymentVm,
): Promise<Why> {
  if (vm.migrating) return onItsWay(sql, hosts, d)
  if (vm.want === 'absent') return waiting('It is ending.')
  const coMoved = await coMovedOf(sql, vm.id, pools)
  const hasVolumes = coMoved.disks.length > 0
  const obstacle = moveObstacle(vm, coMoved)
  if (obstacle) return staying(obstacle)
  const failed = await failedMoves(sql, vm.id, source.id)
  if (hasVolumes && failed.count >= givenUpAfter)
    return waiting(
      `Its move failed ${failed.count} times (${failed.error ?? 'no reason'}); it is tried again after ten minutes.`,
    )
  if (hasVolumes && !isGood(d, vm))
    return staying('It is not well, and cannot be replaced without its volumes. Mend or stop its deployment.')
  const { plans, why } = plansFor(hosts, source, vm, coMoved)
  // Who could leave as it is is not replaced.
  if (!hasVolumes && plans.size === 0 && vm.want === 'paused' && vm.canMove && why.length > 0)
    return staying(why.join(' '))
  if (hasVolumes && plans.size === 0)
    return staying(
      `${why.join(' ') || 'There is no other host of its architecture.'} Add a host that can take it, or stop its deployment.`,
    )
  // What does not move is replaced: its successor says what that waits for.
  const successor = d.vms.find(one => one.hostId === null && one.want !== 'absent')
  if (successor) return waiting(`Its successor starts first: ${successor.placementNote ?? 'it gets its place now.'}`)
  if (plans.size === 0) return waiting('It is replaced: its successor starts on another host first.')
  const placement = placeFor(hosts, plans, d, vm)
  return placement.host
    ? waiting('Others leave first: some of a host at a time, and one of a deployment.')
    : waiting(`${explain(placement)} It goes when there is room: add a host, or stop something.`)
}

async function onItsWay(sql: Sql, hosts: readonly HostRow[], d: Deployment): Promise<Why> {
  const migration = await newestMigration(sql, d.id)
  const target = hosts.find(host => host.id === migration?.targetHostId)
  const percent = migration && migration.percent > 0 ? ` (${Math.round(migration.percent)} %)` : ''
  return { state: 'moving', reason: `On its way to ${target?.name ?? 'another host'}${percent}.` }
}

const isGood = (d: Deployment, vm: DeploymentVm) => (d.want === 'paused' ? vm.observedState === 'paused' : vm.healthy)
