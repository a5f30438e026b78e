/** Samples the usage of running apps, sums old rows into coarser ones, and deletes expired rows. */
import type { Sweep } from '../../engine/sweep.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { floorTo, type Step, steps } from './rules.ts'
import { latestMs } from './receiver.ts'
import * as store from './store.ts'

const batch = 1000

/** Network counters of each VM at the last sample of its app's usage. */
type Counters = ReadonlyMap<string, { readonly rx: number; readonly tx: number }>

/**
 * The sweep that samples the usage of apps. It keeps network counters in memory, so a control plane that takes over the
 * sweep counts traffic from its second sample on.
 */
export function usageSampling({ db, live }: Pick<Deps, 'db'> & { readonly live: LiveStats }): Sweep {
  let before: { readonly atMs: number; readonly counters: Counters } | undefined
  return {
    name: 'usage-sampling',
    everyMs: seconds(15),
    async run({ now }) {
      const isRecent = before && now.getTime() - before.atMs < minutes(2)
      const { samples, counters } = samplesOf(await store.vms(db), live, isRecent ? before?.counters : undefined)
      before = { atMs: now.getTime(), counters }
      const at = new Date(floorTo(now.getTime(), seconds(steps[0])))
      for (let from = 0; from < samples.length; from += batch)
        await store.addUsage(db, at, samples.slice(from, from + batch))
      return { apps: samples.length }
    },
  }
}

/**
 * Sums the metrics of VMs per app.
 * @param known counters at the last sample; undefined without a recent sample, in which case no traffic is counted
 */
export function samplesOf(
  vms: readonly store.RunningVm[],
  live: Pick<LiveStats, 'get'>,
  known: Counters | undefined,
): { readonly samples: store.Sample[]; readonly counters: Counters } {
  const counters = new Map<string, { readonly rx: number; readonly tx: number }>()
  const apps = new Map<string, store.Sample>()
  for (const vm of vms) {
    const stats = live.get(vm.id)
    const then = known?.get(vm.id)
    const last = stats ? { rx: stats.rxBytes, tx: stats.txBytes } : then
    if (last) counters.set(vm.id, last)
    if (!stats) continue
    // A VM's counters start at zero when it starts, and also when it moves to another host.
    const since = (count: number, earlier: number | undefined) =>
      known === undefined ? 0 : earlier === undefined || count < earlier ? count : count - earlier
    const sum = apps.get(vm.appId)
    apps.set(vm.appId, {
      app_id: vm.appId,
      samples: 1,
      cpu_sum: (sum?.cpu_sum ?? 0) + stats.cpuUsage,
      cpu_peak: 0,
      ram_sum: (sum?.ram_sum ?? 0) + stats.ramUsedBytes,
      ram_peak: 0,
      memory_sum: (sum?.memory_sum ?? 0) + vm.memoryMib * 2 ** 20,
      replicas_sum: (sum?.replicas_sum ?? 0) + 1,
      rx_bytes: (sum?.rx_bytes ?? 0) + since(stats.rxBytes, then?.rx),
      tx_bytes: (sum?.tx_bytes ?? 0) + since(stats.txBytes, then?.tx),
    })
  }
  const samples = [...apps.values()].map(one => {
    const cpu = one.cpu_sum / one.replicas_sum
    return { ...one, cpu_sum: cpu, cpu_peak: cpu, ram_peak: one.ram_sum }
  })
  return { samples, counters }
}

/** Age after which rows are summed into coarser ones. Delayed reports have been stored by then. */
const rollDelayMs = latestMs + minutes(1)
/** Length of the time span whose rows one transaction sums. */
const rollMs = hours(1)
/**
 * Retention of the finer rows: the time ranges that are read from them, plus enough time to sum them after the control
 * plane was stopped.
 */
const keptMs = { 30: hours(3), 300: hours(72) } as const

export const historyUpkeep = ({
  db,
  config,
}: Pick<Deps, 'db'> & { readonly config: Pick<Deps['config'], 'historyDays'> }): Sweep => ({
  name: 'history-upkeep',
  everyMs: minutes(1),
  async run({ now, signal }) {
    let untilMs = now.getTime() - rollDelayMs
    let rolled = 0
    for (const [index, step] of steps.entries()) {
      const finer = steps[index - 1]
      if (finer === undefined) continue
      untilMs = floorTo(untilMs, seconds(step))
      const oldestMs = floorTo(now.getTime() - keptMs[finer === 30 ? 30 : 300], seconds(step))
      for (let more = true; more && !signal.aborted; )
        more = await db.tx(async tx => {
          const fromMs = Math.max((await store.mark(tx, step)).getTime(), oldestMs)
          const toMs = Math.min(untilMs, fromMs + rollMs)
          if (toMs <= fromMs) return false
          rolled += await store.roll(tx, step, finer, new Date(fromMs), new Date(toMs))
          await store.setMark(tx, step, new Date(toMs))
          return toMs < untilMs
        })
    }
    const keptOf = (step: Step) => (step === 3600 ? hours(24 * config.historyDays) : keptMs[step])
    let removed = 0
    for (const step of steps)
      for (let count = store.forgetBatch; count === store.forgetBatch && !signal.aborted; removed += count)
        count = await store.forget(db, step, new Date(now.getTime() - keptOf(step)))
    await store.forgetOldReporters(db, new Date(now.getTime() - hours(24)))
    return { rolled, removed }
  },
})
