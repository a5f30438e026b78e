/** Creates links with secrets, and mails them or prints them for an operator without a mail server. */
import type { Db, Tx } from '../../db/db.ts'
import { hours, minutes } from '../../lib/duration.ts'
import type { Vault } from '../../lib/vault.ts'
import { unknownAccount, writeAudit } from '../audit/index.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField } from '../http/errors.ts'
import { queueMail } from '../notifications/index.ts'
import { linkPrefix, newLinkToken, purposes } from './credentials.ts'
import { type LinkPurpose, type NewLink, putLink, renewLink } from './link-store.ts'
import { normaliseEmail } from './rules.ts'

const lifeMs = { verify: hours(24 * 7), reset: hours(1), change: hours(24) } as const satisfies Record<
  LinkPurpose,
  number
>
const quietMs = minutes(1)

/** The secret is in the fragment (`#`), which browsers neither send to a server nor include in a Referer. */
export const linkTo = (publicUrl: string, purpose: LinkPurpose, token: string) =>
  `${publicUrl}/link/${purpose === 'reset' ? 'reset' : 'verify'}#${token}`

const texts = {
  verify: {
    subject: 'Confirm your e-mail address',
    text: (link: string) =>
      `Open this link to confirm that this is your e-mail address:\n\n${link}\n\nIt is valid for seven days.`,
  },
  reset: {
    subject: 'Reset your password',
    text: (link: string) =>
      `Open this link to choose a new password:\n\n${link}\n\nIt is valid for one hour. If you did not ask for it, ignore this mail.`,
  },
  change: {
    subject: 'Confirm your new e-mail address',
    text: (link: string) =>
      `Open this link to use this address for your account from now on:\n\n${link}\n\nIt is valid for one day.`,
  },
} as const satisfies Record<LinkPurpose, { readonly subject: string; readonly text: (link: string) => string }>

type LinkDeps = Pick<Deps, 'config' | 'vault' | 'clock'>

export const hashOfLink = (vault: Vault, token: string) => vault.hash(purposes.emailLink, token)

function newLink(
  vault: Vault,
  now: Date,
  purpose: LinkPurpose,
  email: string | null,
): NewLink & { readonly token: string } {
  const token = newLinkToken()
  return {
    token,
    purpose,
    hash: hashOfLink(vault, token),
    email,
    now,
    expiresAt: new Date(now.getTime() + lifeMs[purpose]),
    olderThan: new Date(now.getTime() - quietMs),
  }
}

/**
 * Creates a link for the account with that e-mail address, and mails it (with `change`: to the new address).
 * @returns false without sending if there is no such account, or its last link is younger than a minute
 */
export async function mailLink(
  tx: Tx,
  deps: LinkDeps,
  account: string,
  purpose: LinkPurpose,
  newEmail: string | null = null,
): Promise<boolean> {
  const { token, ...link } = newLink(deps.vault, deps.clock.now(), purpose, newEmail)
  const made = await putLink(tx, account, link)
  if (!made) return false
  const { subject, text } = texts[purpose]
  queueMail(tx, deps, { to: made.email, subject, text: text(linkTo(deps.config.publicUrl, purpose, token)) })
  return true
}

/**
 * Creates a link that an operator gives to a user who cannot receive mail. The operator must verify the user's
 * identity.
 * @throws Error with the reason and the next step
 */
export async function printLink(
  { db, vault, publicUrl }: { readonly db: Db; readonly vault: Vault; readonly publicUrl: string },
  purpose: LinkPurpose,
  email: string,
): Promise<string> {
  const address = normaliseEmail(email)
  return db.tx(async tx => {
    const { token, ...link } = newLink(vault, new Date(), purpose, null)
    const forced = { ...link, olderThan: link.now }
    const made = purpose === 'change' ? await renewLink(tx, address, forced) : await putLink(tx, address, forced)
    if (!made)
      throw new Error(
        purpose === 'change'
          ? `${email} has not requested a change of its address. Send POST /v1/auth/email first.`
          : `There is no account with the e-mail ${email}.`,
      )
    writeAudit(
      tx,
      { userId: unknownAccount, projectId: undefined, via: undefined, ip: undefined, requestId: undefined },
      { action: 'auth.link_printed', resourceType: 'account', details: { purpose, email: address, by: 'mote admin' } },
    )
    return linkTo(publicUrl, purpose, token)
  })
}

/** Returns the hash under which a link is stored. @throws ApiError 400 if the text is not the token of a link */
export function linkHash({ vault }: Pick<Deps, 'vault'>, token: string): Buffer {
  if (!token.startsWith(linkPrefix)) throw deadLink()
  return hashOfLink(vault, token)
}

/** The same error for an unknown, an expired and a used link. */
export const deadLink = () => invalidField('token', 'is not valid any more; ask for a new link')
