export type { NotificationKind } from './kinds.ts'
export { type SendMail, notificationMails, smtpSender } from './mail.ts'
export { type AccountNotice, type Notice, isFor, notify, notifyAccount } from './notify.ts'
export { notificationsFeature } from './routes.ts'
