/** Responds to bastions that want to know whether a login is valid. */
import { Value } from 'typebox/value'
import type { Bus, Subscription } from '../../bus/bus.ts'
import { gatewaySubjects, loginReaches, TunnelLogin, type TunnelLoginAnswer } from '../../contract/gateway.ts'

/** Returns a grant, or null to refuse the login. */
export type LogIn = (login: TunnelLogin) => Promise<string | null>

/** The function that checks a login, for each kind of target. The user name determines the kind. */
export type Logins = Readonly<Record<'database' | 'app', LogIn>>

export const startLoginReceiver = (bus: Bus, logins: Logins): Promise<Subscription> =>
  bus.serve(
    gatewaySubjects.tunnelLogin,
    async (data): Promise<TunnelLoginAnswer> => {
      const login = Value.Parse(TunnelLogin, data)
      return { grant: await logins[loginReaches(login.user)](login) }
    },
    { group: 'control' },
  )
