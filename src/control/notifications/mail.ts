/** E-mails of notifications. Notification rows with a due e-mail are the queue, and a sweep sends them. */
import type { Sweep } from '../../engine/sweep.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import { once } from '../../lib/once.ts'
import { printable, printableLine } from '../../lib/printable.ts'
import type { Deps } from '../base/deps.ts'
import { type DueMail, due, postponed, settled } from './mail-store.ts'

const batch = 100
/**
 * Delays before retries. When the last retry fails, about two days after the first attempt, the e-mail counts as
 * failed.
 */
export const retryMs = [minutes(1), minutes(5), minutes(30), hours(2), hours(6), hours(12), hours(24)]

/** Sends one mail; resolves when the server has accepted it. */
export type SendMail = (mail: {
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly messageId: string
}) => Promise<void>

/**
 * Sends over SMTP, with a new connection for each mail: mails are rare, and a permanent connection would need
 * monitoring.
 */
export function smtpSender(url: string, from: string): SendMail {
  const transport = once(async () => {
    const { createTransport } = await import('nodemailer')
    return createTransport({ url, connectionTimeout: seconds(10), socketTimeout: seconds(30) }, { from })
  })
  return async ({ to, subject, text, messageId }) => {
    await (await transport()).sendMail({ to, subject, text, messageId })
  }
}

export function configuredSender({ smtpUrl, mailFrom }: Deps['config']): SendMail | undefined {
  return smtpUrl === undefined ? undefined : smtpSender(smtpUrl, mailFrom)
}

/**
 * The sweep that sends the e-mails of notifications, at least once: after a crash between the mail server's OK and our
 * commit, the mail is sent again with the same Message-ID, so that mail programs can drop the duplicate. Without a mail
 * server, e-mails are marked as failed, so that the queue does not grow.
 */
export function notificationMails(
  deps: Pick<Deps, 'db' | 'config' | 'log'>,
  send: SendMail | undefined = configuredSender(deps.config),
): Sweep {
  return {
    name: 'notification-mails',
    everyMs: seconds(5),
    async run({ signal, now }) {
      const counts = { sent: 0, postponed: 0, failed: 0 }
      for (const mail of await due(deps.db, now, batch)) {
        if (signal.aborted) break
        counts[await deliver(deps, send, mail, now)]++
      }
      return counts
    },
  }
}

async function deliver(
  { db, config, log }: Pick<Deps, 'db' | 'config' | 'log'>,
  send: SendMail | undefined,
  mail: DueMail,
  now: Date,
): Promise<'sent' | 'postponed' | 'failed'> {
  if (!send) {
    await settled(db, mail.id, 'failed')
    return 'failed'
  }
  try {
    await send({
      to: mail.to,
      subject: oneLine(mail.title),
      text: `${printable(mail.body)}\n\n${config.publicUrl}${mail.route}\n`,
      messageId: `<${mail.id}@${new URL(config.publicUrl).hostname}>`,
    })
    await settled(db, mail.id, 'sent')
    return 'sent'
  } catch (cause) {
    const wait = isFinal(cause) ? undefined : retryMs[mail.attempt]
    log.warn(
      { notification: mail.id, attempt: mail.attempt, err: messageOf(cause) },
      'a notification could not be mailed',
    )
    if (wait === undefined) await settled(db, mail.id, 'failed')
    else await postponed(db, mail.id, new Date(now.getTime() + wait))
    return wait === undefined ? 'failed' : 'postponed'
  }
}

/**
 * Replaces line breaks in a mail header, because a title may contain user input, and a line break would start another
 * header.
 */
export const oneLine = (text: string) => printableLine(text.replace(/\s+/g, ' ')).slice(0, 200)

/** Returns true for SMTP codes 5xx, which report permanent errors (RFC 5321, 4.2.1). */
export function isFinal(cause: unknown): boolean {
  const code: unknown = typeof cause === 'object' && cause !== null ? Reflect.get(cause, 'responseCode') : undefined
  return typeof code === 'number' && code >= 500
}

/** Returns only the error's code, because the whole error may contain addresses or credentials. */
export function messageOf(cause: unknown): string {
  const code: unknown = typeof cause === 'object' && cause !== null ? Reflect.get(cause, 'code') : undefined
  return typeof code === 'string' ? code : 'refused'
}
