/** What a person carries to the source host and back: which project the installation is for, signed by us, good once. */
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
  /** Of the browser that began it. */
  readonly browser: string
}

/** Long enough to choose repositories and ask an owner; a link that is found later is worth nothing. */
const goodForMs = minutes(30)
const purpose = 'scm.install-state'
const Content = Type.Object({
  id: Type.String(),
  p: Type.String(),
  u: Type.String(),
  b: Type.String(),
  exp: Type.Number(),
})

export function issueState(vault: Vault, wish: Omit<InstallState, 'id'>, now: Date): string {
  const content = { id: newId(), p: wish.projectId, u: wish.userId, b: wish.browser, exp: now.getTime() + goodForMs }
  const body = Buffer.from(JSON.stringify(content)).toString('base64url')
  return `${body}.${vault.hash(purpose, body).toString('base64url')}`
}

/** Undefined for what we did not sign, or too long ago. */
export function readState(vault: Vault, text: string, now: Date): InstallState | undefined {
  const [body = '', mac = ''] = text.split('.')
  const given = Buffer.from(mac, 'base64url')
  const wanted = vault.hash(purpose, body)
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined
  const content = Value.Parse(Content, JSON.parse(Buffer.from(body, 'base64url').toString('utf8')))
  if (content.exp < now.getTime() || !isUuid(content.id)) return undefined
  return { id: content.id, projectId: content.p, userId: content.u, browser: content.b }
}
