/**
 * The `state` parameter that the browser carries to the source host and back during an installation. It names the
 * project, is signed, and can be used once.
 */
import { timingSafeEqual } from 'node:crypto'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { isUuid, newId } from '../../lib/ids.ts'
import { minutes } from '../../lib/duration.ts'
import type { Vault } from '../../lib/vault.ts'

export interface InstallState {
  readonly id: string
  readonly projectId: string
  readonly userId: string
  /** Hash of the cookie of the browser that started the installation. */
  readonly browser: string
  /**
   * Whether a program started the installation: then the user copies a confirmation from the browser to the program.
   */
  readonly confirms: boolean
}

/**
 * Validity of the state: long enough to choose repositories on the source host, and to ask an organization owner for
 * approval.
 */
const goodForMs = minutes(30)
const purpose = 'scm.install-state'
type Purpose = typeof purpose | typeof confirmationPurpose
const Content = Type.Object({
  id: Type.String(),
  p: Type.String(),
  u: Type.String(),
  b: Type.String(),
  c: Type.Optional(Type.Boolean()),
  exp: Type.Number(),
})

export function issueState(vault: Vault, desired: Omit<InstallState, 'id'>, now: Date): string {
  const { projectId: p, userId: u, browser: b, confirms: c } = desired
  return sign(vault, purpose, { id: newId(), p, u, b, c, exp: now.getTime() + goodForMs })
}

function sign(vault: Vault, of: Purpose, content: object): string {
  const body = Buffer.from(JSON.stringify(content)).toString('base64url')
  return `${body}.${vault.hash(of, body).toString('base64url')}`
}

/** Verifies the signature, and returns the parsed content; undefined if the signature is invalid. */
function opened(vault: Vault, of: Purpose, text: string): unknown {
  const [body = '', mac = ''] = text.split('.')
  const given = Buffer.from(mac, 'base64url')
  const wanted = vault.hash(of, body)
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined
  return JSON.parse(Buffer.from(body, 'base64url').toString('utf8'))
}

/** Returns the state; undefined if it is expired or has an invalid signature. */
export function readState(vault: Vault, text: string, now: Date): InstallState | undefined {
  const found = opened(vault, purpose, text)
  if (found === undefined) return undefined
  const { id, p, u, b, c = false, exp } = Value.Parse(Content, found)
  if (exp < now.getTime() || !isUuid(id)) return undefined
  return { id, projectId: p, userId: u, browser: b, confirms: c }
}

/**
 * Content of the confirmation that the callback shows: the user in the browser controls the installation. It is valid
 * once, for the user and project that started the installation.
 */
export interface Confirmation extends Pick<InstallState, 'id' | 'projectId' | 'userId'> {
  readonly installationId: number
}

const confirmationMs = minutes(10)
const confirmationPurpose = 'scm.install-confirmation'
const ConfirmationContent = Type.Object({
  id: Type.String(),
  p: Type.String(),
  u: Type.String(),
  i: Type.Integer(),
  exp: Type.Number(),
})

export function issueConfirmation(
  vault: Vault,
  { id, projectId: p, userId: u, installationId: i }: Confirmation,
  now: Date,
): string {
  return sign(vault, confirmationPurpose, { id, p, u, i, exp: now.getTime() + confirmationMs })
}

/** Returns the confirmation; undefined if it is expired or has an invalid signature. */
export function readConfirmation(vault: Vault, text: string, now: Date): Confirmation | undefined {
  const found = opened(vault, confirmationPurpose, text)
  if (found === undefined) return undefined
  const { id, p, u, i, exp } = Value.Parse(ConfirmationContent, found)
  if (exp < now.getTime() || !isUuid(id)) return undefined
  return { id, projectId: p, userId: u, installationId: i }
}
