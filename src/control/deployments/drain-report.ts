/**
 * Lists the VMs that are still on a draining host and what each of them waits for, for the operator who drains the
 * host.
 */
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

/**
 * How a VM leaves its draining host. `moving`: a move is in progress. `waiting`: the VM leaves without intervention.
 * `staying`: the VM leaves only if an operator acts.
 */
export type LeaveState = 'moving' | 'waiting' | 'staying'

export interface Leaving {
  readonly vmId: string
  readonly projectId: string
  readonly appName: string
  readonly jobId: string
  readonly state: LeaveState
  /** Text for the operator: what the VM waits for, and what the operator can do about it. */
  readonly reason: string
}

/** Maximum number of VMs in the report: each VM costs several SQL statements. */
const mostReported = 100
const givenUpAfter = 2

/**
 * Lists the VMs on the host in the order of their deployments, at most `mostReported`. Slow: don't call it in a
 * transaction that holds locks.
 */
export async function drainReport(sql: Sql, deps: Pick<Deps, 'config'>, source: HostRow): Promise<Leaving[]> {
  const there = { ...deps, hosts: await listHosts(sql, deps.config.hostTimeoutSeconds), pools: await listPools(sql) }
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
  {
    hosts,
    pools,
    config,
  }: Pick<Deps, 'config'> & { readonly hosts: readonly HostRow[]; readonly pools: readonly PoolView[] },
  source: HostRow,
  d: Deployment,
  vm: DeploymentVm,
): Promise<Why> {
  if (vm.migrating) return onItsWay(sql, hosts, d)
  if (vm.want === 'absent') return waiting('The VM is being removed.')
  const coMoved = await coMovedOf(sql, vm.id, pools)
  const hasVolumes = coMoved.disks.length > 0
  const obstacle = moveObstacle(vm, coMoved)
  if (obstacle) return staying(obstacle)
  const failed = await failedMoves(sql, vm.id, source.id)
  if (hasVolumes && failed.count >= givenUpAfter)
    return waiting(
      `The move of the VM failed ${failed.count} times (${failed.error ?? 'no reason'}); the next attempt starts after ten minutes.`,
    )
  if (hasVolumes && !isGood(d, vm))
    return staying('The VM is unhealthy and cannot be replaced without its volumes. Fix or stop its deployment.')
  const { plans, why } = plansFor(hosts, source, vm, coMoved)
  // A paused VM whose hypervisor can move it is not replaced. It stays on its host if no other host can take it.
  if (!hasVolumes && plans.size === 0 && vm.want === 'paused' && vm.canMove && why.length > 0)
    return staying(why.join(' '))
  if (hasVolumes && plans.size === 0)
    return staying(
      `${why.join(' ') || 'There is no other host with the same architecture.'} Add a host that can take the VM, or stop its deployment.`,
    )
  // A VM that cannot move is replaced. What its replacement waits for is in the placement note of the replacement.
  const successor = d.vms.find(one => one.hostId === null && one.want !== 'absent')
  if (successor)
    return waiting(`The replacement of the VM starts first: ${successor.placementNote ?? 'it is being placed now.'}`)
  if (plans.size === 0) return waiting('The VM is being replaced: its replacement starts on another host first.')
  const placement = placeFor({ config }, hosts, plans, d, vm)
  return placement.host
    ? waiting('Other VMs leave first: only a few VMs of a host move at a time, and one VM of a deployment.')
    : waiting(`${explain(placement)} The VM leaves when there is capacity: add a host, or stop something.`)
}

async function onItsWay(sql: Sql, hosts: readonly HostRow[], d: Deployment): Promise<Why> {
  const migration = await newestMigration(sql, d.id)
  const target = hosts.find(host => host.id === migration?.targetHostId)
  const percent = migration && migration.percent > 0 ? ` (${Math.round(migration.percent)} %)` : ''
  return { state: 'moving', reason: `Moving to ${target?.name ?? 'another host'}${percent}.` }
}

const isGood = (d: Deployment, vm: DeploymentVm) => (d.want === 'paused' ? vm.observedState === 'paused' : vm.healthy)
