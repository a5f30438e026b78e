/** Answers the bastions' requests to check a login. */
import { Value } from 'typebox/value'
import type { Bus, Subscription } from '../../bus/bus.ts'
import { gatewaySubjects, loginReaches, TunnelLogin, type TunnelLoginAnswer } from '../../contract/gateway.ts'

/** Checks a login. Returns a grant, or null to refuse the login. */
export type LogIn = (login: TunnelLogin) => Promise<string | null>

/**
 * The functions that check logins to databases and to apps. The user name of the login determines which one is used.
 */
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
