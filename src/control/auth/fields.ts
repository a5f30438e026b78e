/** Fields and settings shared by the identity operations. */
import { maybe, rawText, text } from '../http/types.ts'

type Options = Readonly<Record<string, unknown>>

export const email = (options: Options = {}) =>
  text({
    minLength: 3,
    maxLength: 254,
    format: 'email',
    examples: ['ada@example.com'],
    ...options,
  })
export const personName = (options: Options = {}) => text({ maxLength: 100, ...options })
/** A password. Its length is checked by rules.ts, together with the list of common passwords. */
export const password = (options: Options = {}) =>
  rawText({
    maxLength: 1024,
    description: 'Password of the account.',
    examples: ['maroon-kettle-orbit-27'],
    ...options,
  })
export const newPassword = (options: Options = {}) =>
  password({
    description:
      'Password to sign in with: 8 to 128 characters, neither a commonly used password nor the e-mail address.',
    ...options,
  })
export const code = (options: Options = {}) =>
  text({
    minLength: 1,
    maxLength: 64,
    examples: ['492039'],
    ...options,
  })

/** The token in a mailed link: the part after the `#`. */
export const linkToken = () =>
  text({
    maxLength: 200,
    description: 'Secret of a mailed link: the part after the `#`. It works once.',
    examples: ['svc_link_Jt3vQ0mC8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc'],
  })

/**
 * Schema of the proof for step-up.ts: the password or a code. In a session that began within the last ten minutes, both
 * may be absent.
 */
export const proof = () => ({
  password: maybe(
    password({
      description:
        'Password of the account. Not needed if `code` is sent, or in a session that began within the last 10 minutes.',
    }),
  ),
  code: maybe(
    code({
      description: 'Code of the authenticator app, or a recovery code. May be sent instead of `password`.',
      examples: [null, '492039'],
    }),
  ),
})

export const open = { tag: 'Authentication', auth: 'none', scope: 'write', project: 'none' } as const
export const own = { tag: 'Account', auth: 'bearer', project: 'none' } as const
