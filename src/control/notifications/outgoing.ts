/** E-mails to an address instead of an account: verification links, and notices to the former address of an account. */
import { type Db, type Tx, statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { printable } from '../../lib/printable.ts'
import type { Deps } from '../base/deps.ts'
import { configuredSender, isFinal, messageOf, oneLine, retryMs, type SendMail } from './mail.ts'

export interface AddressMail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

const insert = statement(
  'mail.insert',
  `INSERT INTO outgoing_mail (id, recipient, subject, body, due_at) VALUES ($1, $2, $3, $4, $5)`,
)
const dueMails = statement<{ id: string; to: string; subject: string; body: Buffer; attempt: number }>(
  'mail.due',
  `SELECT id, recipient AS to, subject, body, attempt FROM outgoing_mail WHERE due_at <= $1 ORDER BY due_at LIMIT $2`,
)
const remove = statement('mail.remove', `DELETE FROM outgoing_mail WHERE id = $1`)
const postpone = statement('mail.postpone', `UPDATE outgoing_mail SET due_at = $2, attempt = attempt + 1 WHERE id = $1`)

export const mailBodyPurpose = 'mail.body'
const batch = 100

/**
 * Queues an e-mail in the caller's transaction. Without a mail server nothing is queued; an operator can then print the
 * link (`mote admin link`).
 */
export function queueMail(
  tx: Tx,
  { config, vault, clock }: Pick<Deps, 'config' | 'vault' | 'clock'>,
  mail: AddressMail,
) {
  if (config.smtpUrl === undefined) return
  const body = vault.seal(mailBodyPurpose, printable(mail.text))
  tx.atCommit(insert, [newId(), mail.to, oneLine(mail.subject), body, clock.now()])
}

/** The sweep that sends queued e-mails, at least once and with a stable Message-ID, as in mail.ts. */
export function outgoingMails(
  deps: Pick<Deps, 'db' | 'config' | 'vault' | 'log'>,
  send: SendMail | undefined = configuredSender(deps.config),
): Sweep {
  return {
    name: 'outgoing-mails',
    everyMs: seconds(5),
    async run({ signal, now }) {
      const counts = { sent: 0, postponed: 0, failed: 0 }
      for (const mail of await deps.db.rows(dueMails, [now, batch])) {
        if (signal.aborted) break
        counts[await deliver(deps, send, mail, now)]++
      }
      return counts
    },
  }
}

async function deliver(
  { db, config, vault, log }: Pick<Deps, 'db' | 'config' | 'vault' | 'log'>,
  send: SendMail | undefined,
  mail: {
    readonly id: string
    readonly to: string
    readonly subject: string
    readonly body: Buffer
    readonly attempt: number
  },
  now: Date,
): Promise<'sent' | 'postponed' | 'failed'> {
  if (!send) return drop(db, mail.id, 'failed')
  try {
    const messageId = `<${mail.id}@${new URL(config.publicUrl).hostname}>`
    await send({ to: mail.to, subject: mail.subject, text: vault.open(mailBodyPurpose, mail.body), messageId })
    return await drop(db, mail.id, 'sent')
  } catch (cause) {
    const wait = isFinal(cause) ? undefined : retryMs[mail.attempt]
    log.warn({ mail: mail.id, attempt: mail.attempt, err: messageOf(cause) }, 'a mail could not be sent')
    if (wait === undefined) return drop(db, mail.id, 'failed')
    await db.run(postpone, [mail.id, new Date(now.getTime() + wait)])
    return 'postponed'
  }
}

async function drop<Outcome>(db: Db, id: string, outcome: Outcome): Promise<Outcome> {
  await db.run(remove, [id])
  return outcome
}
