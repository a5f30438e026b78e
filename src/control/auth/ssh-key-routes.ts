import { createHash } from 'node:crypto'
import { uniqueViolation } from '../../db/errors.ts'
import { newId } from '../../lib/ids.ts'
import { invalidField, invalidState, nameTaken, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { type AuthContext, assertWholeAccount } from './context.ts'
import type { authOperations } from './schema.ts'
import type { SshKey } from './ssh-key-schema.ts'
import { addSshKey, removeSshKey, type SshKeyRow, sshKeysOf } from './ssh-key-store.ts'

type SshKeyHandlers = Pick<Handlers<typeof authOperations>, 'listSshKeys' | 'addSshKey' | 'removeSshKey'>

const mostKeys = 100

export const sshKeyHandlers = (ctx: AuthContext): SshKeyHandlers => ({
  listSshKeys: {
    read: async ({ caller }) => (await sshKeysOf(ctx.db, caller.userId)).map(viewOf),
  },
  addSshKey: {
    write: async ({ body, caller, audit }) => {
      assertWholeAccount(caller)
      const publicKey = parsePublicKey(body.public_key)
      const { name } = body
      return async tx => {
        if ((await sshKeysOf(tx, caller.userId)).length >= mostKeys)
          throw invalidState(`An account can have at most ${mostKeys} keys. Remove one first.`)
        const fingerprint = sshFingerprint(publicKey)
        try {
          const row = await addSshKey(tx, { id: newId(), accountId: caller.userId, name, publicKey, fingerprint })
          audit({
            action: 'auth.ssh_key_added',
            resourceType: 'ssh_key',
            resourceId: row.id,
            details: { name, fingerprint },
          })
          return viewOf(row)
        } catch (cause) {
          if (uniqueViolation(cause, 'ssh_key_fingerprint')) throw nameTaken('key', fingerprint)
          throw cause
        }
      }
    },
  },
  removeSshKey: {
    write: async ({ params, caller, audit }) => {
      assertWholeAccount(caller)
      return async tx => {
        const name = await removeSshKey(tx, params.key_id, caller.userId)
        if (name === undefined) throw notFound()
        audit({ action: 'auth.ssh_key_removed', resourceType: 'ssh_key', resourceId: params.key_id, details: { name } })
        return { status: 'removed' as const }
      }
    },
  },
})

/** SSH key types that an account may register: all common ones except DSA. */
const kinds = ['ssh-ed25519', 'ssh-rsa', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521']

/**
 * Parses an SSH public key, a line `<kind> <base64> [comment]`.
 * @returns the key in the format of RFC 4253, 6.6, in base64
 * @throws ApiError 400
 */
export function parsePublicKey(line: string): string {
  const [kind = '', data = ''] = line.trim().split(/\s+/)
  const bytes = Buffer.from(data, 'base64')
  const length = bytes.length > 4 ? bytes.readUInt32BE(0) : 0
  const inside = bytes.subarray(4, 4 + length).toString('latin1')
  if (!kinds.includes(kind) || inside !== kind || bytes.length < 40)
    throw invalidField(
      'public_key',
      `must be a line such as "ssh-ed25519 AAAA... me@laptop"; kinds: ${kinds.join(', ')}`,
    )
  return bytes.toString('base64')
}

/** The fingerprint in the format of `ssh-keygen -l`. @param publicKey RFC 4253, 6.6, in base64 */
export const sshFingerprint = (publicKey: string): string =>
  `SHA256:${createHash('sha256')
    .update(Buffer.from(publicKey, 'base64'))
    .digest('base64')
    .replace(/(?<!=)=+$/, '')}`

const viewOf = (row: SshKeyRow): SshKey => ({
  id: row.id,
  name: row.name,
  fingerprint: row.fingerprint,
  created_at: row.createdAt.toISOString(),
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
})
