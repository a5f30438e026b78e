import type { Deps } from '../base/deps.ts'
import { feature } from '../http/operation.ts'
import { accountHandlers } from './account-routes.ts'
import { captchaHandlers } from './captcha-routes.ts'
import { createAuthContext } from './context.ts'
import { authOperations } from './schema.ts'
import { emailHandlers } from './email-routes.ts'
import { resetHandlers } from './reset-routes.ts'
import { sessionHandlers } from './session-routes.ts'
import { sshKeyHandlers } from './ssh-key-routes.ts'
import { tokenHandlers } from './token-routes.ts'
import { twoFactorHandlers } from './two-factor-routes.ts'

export function authFeature(deps: Deps) {
  const ctx = createAuthContext(deps)
  return feature(authOperations, {
    ...captchaHandlers(ctx),
    ...accountHandlers(ctx),
    ...emailHandlers(ctx),
    ...resetHandlers(ctx),
    ...sessionHandlers(ctx),
    ...twoFactorHandlers(ctx),
    ...tokenHandlers(ctx),
    ...sshKeyHandlers(ctx),
  })
}
