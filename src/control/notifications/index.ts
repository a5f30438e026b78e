/** Notifications for accounts, and the e-mails that go with them. */
export type { NotificationKind } from './kinds.ts'
export { type SendMail, notificationMails, smtpSender } from './mail.ts'
export { mailBodyPurpose, outgoingMails, queueMail } from './outgoing.ts'
export { type AccountNotice, type Notice, isFor, notify, notifyAccount, notifyOperators } from './notify.ts'
export { planLimitNotices } from './plan-limit.ts'
export { notificationsFeature } from './routes.ts'
