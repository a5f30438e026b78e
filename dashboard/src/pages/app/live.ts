/** Derives the current state of an app from its record and its live deployments. Pure. */
import type { App, LiveDeployment } from '@mote/client'

/** The serving deployment, or the one being rolled out if none serves. */
export function liveOf(app: App, active: readonly LiveDeployment[]): LiveDeployment | undefined {
  const own = active.filter(one => one.app_id === app.id)
  return own.find(one => one.deployment_id === app.active_deployment_id) ?? own[0]
}

const onTheWay = new Set(['pending', 'building', 'scheduled', 'starting'])

/** The status of the whole app as one or two words. */
export function appStatus(app: App, active: readonly LiveDeployment[]): string {
  const own = active.filter(one => one.app_id === app.id)
  if (own.some(one => onTheWay.has(one.status))) return 'deploying'
  if (app.scale_state === 'scaled_to_zero') return 'sleeping'
  if (app.scale_state === 'warming_up') return 'warming up'
  if (app.failure !== null) return liveOf(app, active)?.status ?? 'failed'
  return liveOf(app, active)?.status ?? (app.active_deployment_id ? 'stopped' : 'not deployed')
}
