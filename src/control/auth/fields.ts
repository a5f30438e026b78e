/** Fields and settings that the operations of identity share. */
import { maybe, rawText, text } from '../http/types.ts'

export const email = (options = {}) => text({ minLength: 3, maxLength: 254, format: 'email', ...options })
export const personName = () => text({ maxLength: 100 })
/** Lengths are checked by the rules of the feature, which also know the list of common passwords. */
export const password = () => rawText({ maxLength: 1024 })
export const code = (options = {}) => text({ minLength: 1, maxLength: 64, ...options })

/** What stands behind the `#` of a mailed link. */
export const linkToken = () => text({ maxLength: 200 })

/** Either of them, or neither after a sign-in of the last ten minutes (step-up.ts). */
export const proof = () => ({
  password: maybe(password()),
  code: maybe(code({ description: 'A code of the authenticator, or a recovery code.' })),
})

export const open = { tag: 'Authentication', auth: 'none', scope: 'write', project: 'none' } as const
export const own = { tag: 'Account', auth: 'bearer', project: 'none' } as const
