/** Every kind of notification, and when an e-mail is sent with it. The documentation includes this list. */
export const notificationKinds = {
  'deployment.live': { email: 'no', meaning: 'a deployment serves now' },
  'deployment.failed': { email: 'yes', meaning: 'a deployment never became healthy, or crashed too often' },
  'deployment.rolled_back': { email: 'yes', meaning: 'an earlier deployment serves again' },
  'database.ready': { email: 'no', meaning: 'a database accepts connections' },
  'database.failed': { email: 'yes', meaning: 'a database could not be made or restored' },
  'volume.trouble': { email: 'yes', meaning: 'a volume is nearly full or could not be attached' },
  'domain.lost': { email: 'yes', meaning: 'the TXT record of a custom domain has gone, and the domain is not served' },
  'plan.limit_reached': { email: 'no', meaning: 'a request was refused because of the plan' },
  'billing.trouble': { email: 'yes', meaning: 'a payment failed or a subscription ends' },
  'project.invitation': {
    email: 'no',
    meaning: 'somebody invites you to a project; the mail goes to the invited address',
  },
  'project.member_added': { email: 'no', meaning: 'somebody joined a project' },
  'security.new_login': { email: 'always', meaning: 'a sign-in from an address not seen before' },
  'security.sessions_revoked': { email: 'always', meaning: 'a used refresh token came back: every session was ended' },
  'security.password_changed': { email: 'always', meaning: 'the password was changed' },
  'security.2fa_enabled': { email: 'always', meaning: 'two-factor authentication was switched on' },
  'security.2fa_disabled': { email: 'always', meaning: 'two-factor authentication was switched off' },
  'security.token_created': { email: 'always', meaning: 'a personal access token was made' },
  'host.lost': { email: 'yes', meaning: 'a host is silent; its VMs start elsewhere (to operators)' },
  'host.back': { email: 'no', meaning: 'a lost host reports again, or was removed (to operators)' },
  'product.news': { email: 'marketing', meaning: 'news about the product' },
} as const satisfies Record<string, { readonly email: EmailPolicy; readonly meaning: string }>

/**
 * Whether an e-mail is sent with a notification. `always`: yes, users cannot turn it off. `yes`: depends on the user
 * setting `email_notifications`. `marketing`: depends on `marketing_emails`. `no`: never.
 */
export type EmailPolicy = 'always' | 'yes' | 'marketing' | 'no'

export type NotificationKind = keyof typeof notificationKinds
