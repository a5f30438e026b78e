/** Requests and resource usage of apps over time, from counts of gateways and measurements of hosts. */
import type { Deps } from '../base/deps.ts'
import { findApp } from '../deployments/index.ts'
import { notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { binsOf, partsOf, windowOf } from './rules.ts'
import { historyOperations } from './schema.ts'
import * as store from './store.ts'
import { amountsView } from './view.ts'

export { startCountsReceiver } from './receiver.ts'
export { historyUpkeep, usageSampling } from './sweep.ts'

export const historyFeature = ({ db, clock }: Pick<Deps, 'db' | 'clock'>) =>
  feature(historyOperations, {
    getAppHistory: {
      read: async ({ project, params, query }) => {
        const range = query.range ?? '1h'
        const [app, marks] = await Promise.all([findApp(db, project.id, params.app_name), store.marks(db)])
        if (!app) throw notFound()
        const window = windowOf(range, clock.now().getTime())
        const { bins, total } = binsOf(window, await store.rows(db, app.id, partsOf(range, window, marks)))
        return {
          range,
          from: new Date(window.fromMs).toISOString(),
          to: new Date(window.toMs).toISOString(),
          totals: amountsView(total),
          points: bins.map(({ atMs, seconds, amounts }) => ({
            at: new Date(atMs).toISOString(),
            seconds,
            ...amountsView(amounts),
          })),
        }
      },
    },
  })
