/** What an app is doing now, from its record and what runs. Pure. */
import type { App, LiveDeployment } from '@mote/client'

/** The deployment that serves, or the one on its way when none does. */
export function liveOf(app: App, active: readonly LiveDeployment[]): LiveDeployment | undefined {
  const own = active.filter(one => one.app_id === app.id)
  return own.find(one => one.deployment_id === app.active_deployment_id) ?? own[0]
}

const onTheWay = new Set(['pending', 'building', 'scheduled', 'starting'])

/** One word for the whole app. */
export function appStatus(app: App, active: readonly LiveDeployment[]): string {
  const own = active.filter(one => one.app_id === app.id)
  if (own.some(one => onTheWay.has(one.status))) return 'deploying'
  if (app.scale_state === 'scaled_to_zero') return 'sleeping'
  if (app.scale_state === 'warming_up') return 'warming up'
  return liveOf(app, active)?.status ?? (app.active_deployment_id ? 'stopped' : 'not deployed')
}
