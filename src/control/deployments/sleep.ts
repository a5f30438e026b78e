/**
 * The scale-to-zero phases of the active deployment. The state belongs to the app (`scale_state`) and only changes
 * along active -> idle -> scaled_to_zero -> warming_up -> active, or from idle back to active when a request arrives in
 * time.
 */
import type { HypervisorName } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, go, wait } from '../../engine/workflow.ts'
import { advanceWorkflow } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { refreshRoute } from '../routing/index.ts'
import { createSnapshot, createVm, dropSnapshots, type PlacedVm, startVmOn, setVmsWant } from '../vms/index.ts'
import { announce, announceById } from './announce.ts'
import { creatable } from './one-at-a-time.ts'
import type { Deployment, DeploymentVm } from './store.ts'
import * as active from './active-store.ts'

interface Moment {
  readonly subject: Deployment
  readonly enteredAt: Date
  readonly now: Date
}

/**
 * Time after which the control plane knows of all requests that started before the route changed: gateways report
 * requests every two seconds (`trafficReportMs`).
 */
const graceMs = seconds(6)
const snapshotLimitMs = minutes(1)
const wakeLimitMs = minutes(1)
const wakeDeadlineMs = wakeLimitMs + minutes(1)
const pollMs = minutes(1)
/**
 * Interval of checks while a VM starts: a VM that becomes healthy does not poke the deployment's workflow
 * (vms/observed.ts).
 */
const wakingPollMs = seconds(1)

const kept = (d: Deployment) => d.vms.filter(vm => vm.want !== 'absent')
const elapsedMs = ({ enteredAt, now }: Moment) => now.getTime() - enteredAt.getTime()

/**
 * The phase before the app sleeps: no requests are routed to the app any more. If no request arrives during a grace
 * period, one VM is saved as a snapshot and all VMs are removed.
 */
export async function suspending(moment: Moment, config: Deps['config']): Promise<Next<'serving' | 'sleeping'>> {
  const { subject: d } = moment
  if (d.activeDeploymentId !== d.id || d.scaleState === 'active')
    return go('serving', async tx => {
      // The sleep snapshot is deleted: it would be outdated when the app sleeps again, and while it exists, a VM with
      // volumes stays paused.
      await dropSnapshots(tx, d.id, 'sleep')
      await announce(d)(tx)
    })
  const leftMs = Math.min(graceMs, seconds(config.idleSeconds)) - elapsedMs(moment)
  if (leftMs > 0) return wait(leftMs)
  const source = kept(d).find(vm => vm.canSnapshot && vm.healthy)
  if (source && !d.sleepSnapshot) return wait(snapshotLimitMs, tx => keepAsleep(tx, d, source))
  if (d.sleepSnapshot?.state === 'creating' && elapsedMs(moment) < snapshotLimitMs) return wait(seconds(5))
  return go('sleeping', async tx => {
    // A request has woken the app since this step was loaded. The error rolls the step back, and the next step sees the
    // new state.
    if (!(await active.moveScale(tx, d.appId, 'idle', 'scaled_to_zero')))
      throw new Error('a request arrived during the suspend')
    await removeVms(tx, d)
    await refreshRoute(tx, d.appId)
    await announceById(tx, d.id)
  })
}

export async function sleeping({ subject: d }: Moment): Promise<Next<'serving' | 'waking'>> {
  if (d.activeDeploymentId !== d.id || d.scaleState === 'active') return go('serving', announce(d))
  // Waits while a later rollout of an exclusive app starts its VMs.
  if (d.yields) return wait(pollMs)
  if (d.scaleState === 'warming_up') return go('waking', tx => startVm(tx, d), wakeDeadlineMs)
  return wait(pollMs)
}

/**
 * Data of a sleeping app that can be woken without searching for a host: its snapshot is complete, and the snapshot's
 * host can start it.
 */
export interface Bed {
  readonly projectId: string
  readonly appId: string
  readonly deploymentId: string
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly ipv6Prefix: string
  readonly snapshotId: string
  readonly hostId: string
  readonly hypervisor: HypervisorName
}

/**
 * Does the work of the `sleeping` phase in the transaction that wakes the app, which has locked the app and the
 * deployment. With workflow steps instead, three steps take two thirds of the time until the host receives the new VM
 * (docs/decisions/0077-fast-wake.md).
 * @param afterMs time after which the workflows continue, for a caller that sends the VM to its host itself
 * @returns the VM that the caller should send to its host; undefined: the workflows wake the app
 */
export async function wakeNow(tx: Tx, bed: Bed, afterMs: number): Promise<PlacedVm | undefined> {
  const isMine = await advanceWorkflow(tx, 'deployment', bed.deploymentId, {
    from: 'sleeping',
    to: 'waking',
    afterMs,
    deadlineMs: wakeDeadlineMs,
  })
  if (!isMine) return undefined
  const from = { snapshotId: bed.snapshotId, hostId: bed.hostId, required: false }
  return startVmOn(tx, { ...bed, id: newId(), from }, { ...bed, afterMs })
}

/**
 * The phase in which the first VM of a woken app starts. One healthy VM is enough to serve; the others follow later. If
 * the first VM fails to start, the app stays asleep and the next request tries again.
 */
export async function waking(moment: Moment): Promise<Next<'serving' | 'sleeping'>> {
  const { subject: d } = moment
  // The commit that recorded the app's healthy VM made the app active (vms/observed.ts), so no request waits for this
  // step.
  if (d.activeDeploymentId !== d.id || d.scaleState === 'active')
    return go('serving', async tx => {
      await dropSnapshots(tx, d.id, 'sleep')
      await announce(d)(tx)
    })
  if (kept(d).some(vm => vm.healthy))
    return go('serving', async tx => {
      await active.moveScale(tx, d.appId, 'warming_up', 'active')
      await dropSnapshots(tx, d.id, 'sleep')
      await refreshRoute(tx, d.appId)
      await announceById(tx, d.id)
    })
  const crashed = kept(d).some(vm => vm.observedState === 'crashed')
  const leftMs = wakeLimitMs - elapsedMs(moment)
  if (crashed || leftMs <= 0 || d.scaleState !== 'warming_up')
    return go('sleeping', async tx => {
      const asleep = await active.moveScale(tx, d.appId, 'warming_up', 'scaled_to_zero')
      // The VM became healthy since this step was loaded. The error rolls the step back, and the next step sees the
      // change.
      if (!asleep && d.scaleState === 'warming_up')
        throw new Error('the VM of the deployment became healthy in the meantime')
      await removeVms(tx, d)
      // The snapshot may have caused the failure, so the next wake boots the VM without it.
      await dropSnapshots(tx, d.id, 'sleep')
      await refreshRoute(tx, d.appId)
      await announceById(tx, d.id)
    })
  if (kept(d).length > 0) return wait(Math.min(leftMs, wakingPollMs))
  if (d.yields) return wait(Math.min(leftMs, wakingPollMs))
  // No VM is left, so another one is started: the first VM's host was lost, or no VM could be created because an old
  // one of an exclusive app had not ended.
  return wait(Math.min(leftMs, wakingPollMs), tx => startVm(tx, d))
}

async function keepAsleep(tx: Tx, d: Deployment, vm: DeploymentVm): Promise<void> {
  if (!vm.hostId) return
  await createSnapshot(tx, { ...d, deploymentId: d.id, vmId: vm.id, hostId: vm.hostId, kind: 'sleep', name: 'sleep' })
}

async function startVm(tx: Tx, d: Deployment): Promise<void> {
  if ((await creatable(tx, d.appId, 1)) === 0) return
  const snapshot = d.sleepSnapshot?.state === 'ready' ? d.sleepSnapshot : undefined
  await createVm(tx, {
    ...d,
    id: newId(),
    deploymentId: d.id,
    ...(snapshot ? { from: { snapshotId: snapshot.id, hostId: snapshot.hostId, required: false } } : {}),
  })
}

async function removeVms(tx: Tx, d: Deployment): Promise<void> {
  await setVmsWant(
    tx,
    kept(d).map(vm => vm.id),
    'absent',
  )
}
