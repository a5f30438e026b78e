import { invalidField, invalidState } from '../http/errors.ts'
import type { Call, Handlers } from '../http/operation.ts'
import { notifyAccount } from '../notifications/index.ts'
import { type AuthContext, assertWholeAccount } from './context.ts'
import { purposes } from './credentials.ts'
import type { authOperations } from './schema.ts'
import { assertStepUp, ownAccount } from './step-up.ts'
import { beginTotp, confirmTotp, removeTotp, replaceRecoveryCodes } from './store.ts'
import {
  matchingStep,
  newRecoveryCodes,
  newTotpSecret,
  normaliseRecoveryCode,
  otpauthUrl,
  qrCode,
  totpCode,
} from './totp.ts'

type Operations = typeof authOperations
type TwoFactorHandlers = Pick<Handlers<Operations>, 'setupTotp' | 'setupTotpByPost' | 'verifyTotp' | 'disableTotp'>

export function twoFactorHandlers(ctx: AuthContext): TwoFactorHandlers {
  const setup = {
    write: async ({ caller, audit }: Pick<Call<Operations['setupTotp']>, 'caller' | 'audit'>) => {
      assertWholeAccount(caller)
      const secret = newTotpSecret()
      const otpauth = otpauthUrl(secret, caller.email)
      const qr = await qrCode(otpauth)
      return async (tx: Parameters<typeof beginTotp>[0]) => {
        // A setup never replaces an enabled second factor: the user must disable it first, which requires a proof of
        // identity.
        if (!(await beginTotp(tx, caller.userId, ctx.vault.seal(purposes.totpSecret, secret)))) throw alreadyOn()
        audit({ action: 'auth.2fa_setup', resourceType: 'account', resourceId: caller.userId })
        return { secret, otpauth_url: otpauth, qr_code: qr }
      }
    },
  }
  return {
    setupTotp: setup,
    setupTotpByPost: setup,
    verifyTotp: {
      write: async call => {
        const { caller } = call
        const account = await ownAccount(ctx, caller)
        if (account.totpEnabled) throw alreadyOn()
        const sealed = account.totpSecret
        if (sealed === null) throw invalidState('Two-factor authentication is not set up. Request a secret first.')
        // Enabling the second factor requires a proof of identity. Otherwise an attacker with a stolen credential could
        // enable it and lock the owner out.
        await assertStepUp(ctx, call, account, { password: call.body.password ?? null })
        await ctx.backoff.enter(account.email, call.ip)
        const code = totpCode(call.body.code)
        const step = code && matchingStep(ctx.vault.open(purposes.totpSecret, sealed), code, ctx.clock.now())
        if (!step) {
          await ctx.backoff.failed(account.email, call.ip)
          throw invalidField('code', 'is not the current code of the authenticator')
        }
        return async tx => {
          if (!(await confirmTotp(tx, caller.userId, sealed, step))) {
            throw invalidState('The secret was replaced in the meantime. Scan the new one.')
          }
          const codes = newRecoveryCodes()
          const hashes = codes.map(text => ctx.vault.hash(purposes.recoveryCode, normaliseRecoveryCode(text)))
          await replaceRecoveryCodes(tx, caller.userId, hashes)
          call.audit({ action: 'auth.2fa_enabled', resourceType: 'account', resourceId: caller.userId })
          await notifyAccount(tx, {
            accountId: caller.userId,
            kind: 'security.2fa_enabled',
            title: 'Two-factor authentication is on',
            body: 'From now on, signing in requires a code. Keep the recovery codes in a safe place.',
          })
          return { totp_enabled: true, recovery_codes: codes }
        }
      },
    },
    disableTotp: {
      write: async call => {
        const account = await ownAccount(ctx, call.caller)
        if (!account.totpEnabled) throw invalidState('Two-factor authentication is already off.')
        await assertStepUp(ctx, call, account, call.body ?? {})
        return async tx => {
          if (!(await removeTotp(tx, account.id))) throw invalidState('Two-factor authentication is already off.')
          await replaceRecoveryCodes(tx, account.id, [])
          call.audit({ action: 'auth.2fa_disabled', resourceType: 'account', resourceId: account.id })
          await notifyAccount(tx, {
            accountId: account.id,
            kind: 'security.2fa_disabled',
            title: 'Two-factor authentication is off',
            body: 'Signing in now requires the password only. If this was not you, change your password now.',
          })
          return { status: 'disabled' as const }
        }
      },
    },
  }
}

const alreadyOn = () => invalidState('Two-factor authentication is on. Switch it off before setting it up again.')
