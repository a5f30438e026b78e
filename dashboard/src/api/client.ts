import { ApiFailure, createClient } from '@mote/client'
import { currentProject } from './project.ts'
import { currentToken, type Refresh, renew } from './session.ts'

const anonymous = createClient({ baseUrl: '', retries: 0 })

export const refresh: Refresh = async (refresh_token, idempotencyKey) => {
  try {
    return await anonymous.refreshSession({ body: { refresh_token } }, { idempotencyKey })
  } catch (cause) {
    if (cause instanceof ApiFailure && cause.status === 401) return undefined
    throw cause
  }
}

/** The API client of the dashboard: uses the current session and the selected project. */
export const api = createClient({
  baseUrl: '',
  token: currentToken,
  renew: refused => renew(refused, refresh),
  project: () => currentProject.get(),
})
