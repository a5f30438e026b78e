import type { AuthContext } from './context.ts'
import { purposes } from './credentials.ts'
import { type CredentialRow, spendRecoveryCode, spendTotpStep } from './store.ts'
import { matchingStep, normaliseRecoveryCode, totpCode } from './totp.ts'

/**
 * Returns whether the code is valid, and marks it as used: the code of an authenticator for its time step, a recovery
 * code permanently.
 */
export async function spendSecondFactor(
  ctx: Pick<AuthContext, 'db' | 'vault' | 'clock'>,
  account: CredentialRow,
  text: string,
): Promise<boolean> {
  const code = totpCode(text)
  if (code === undefined) {
    return spendRecoveryCode(ctx.db, account.id, ctx.vault.hash(purposes.recoveryCode, normaliseRecoveryCode(text)))
  }
  if (!account.totpEnabled || account.totpSecret === null) return false
  const step = matchingStep(ctx.vault.open(purposes.totpSecret, account.totpSecret), code, ctx.clock.now())
  return step !== undefined && (await spendTotpStep(ctx.db, account.id, step))
}
