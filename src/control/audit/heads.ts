/**
 * Signed heads of the audit log's hash chain, stored outside the database. A head is the position and hash of the
 * newest sealed row. An attacker who removes the newest rows and resets the recorded head leaves a chain that verifies;
 * an earlier signed head reveals the removal. Heads are written to the log of the control plane, and to a file if one
 * is configured.
 */
import { timingSafeEqual } from 'node:crypto'
import { appendFile } from 'node:fs/promises'
import { type Db, statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { minutes } from '../../lib/duration.ts'
import type { Vault } from '../../lib/vault.ts'
import type { Deps } from '../base/deps.ts'

export interface AuditHead {
  readonly position: number
  /** Hash of the row at `position`, in hexadecimal. */
  readonly hash: string
}

const purpose = 'audit-head'
const end = statement<{ position: number; hash: Buffer }>(
  'audit.head',
  `SELECT last_position AS position, last_hash AS hash FROM audit_chain`,
)

/** Returns a signed head as one line of text: position, hash, time and signature. */
export function signedHead(vault: Vault, { position, hash }: AuditHead, at: Date): string {
  const content = `audit-head ${position} ${hash} ${at.toISOString()}`
  return `${content} ${vault.hash(purpose, content).toString('hex')}`
}

/**
 * Parses the heads in a file or a log, and ignores other text on a line.
 * @throws Error that names a line with an invalid signature
 */
export function readHeads(vault: Vault, text: string): AuditHead[] {
  const heads: AuditHead[] = []
  for (const [index, line] of text.split('\n').entries()) {
    const found = /(audit-head (\d+) ([0-9a-f]{64}) \S+) ([0-9a-f]{64})/.exec(line)
    if (!found) continue
    const [, content = '', position, hash = '', signature = ''] = found
    if (!timingSafeEqual(vault.hash(purpose, content), Buffer.from(signature, 'hex')))
      throw new Error(
        `line ${index + 1} has a head with a wrong signature: it was changed, or is of another installation`,
      )
    heads.push({ position: Number(position), hash })
  }
  return heads
}

export async function currentHead(db: Db): Promise<AuditHead> {
  const { position, hash } = await db.one(end)
  return { position, hash: hash.toString('hex') }
}

/** The sweep that writes a signed head of the audit log once a minute while the log grows. */
export function auditHeads({ db, vault, config, log }: Pick<Deps, 'db' | 'vault' | 'config' | 'log'>): Sweep {
  let written = 0
  return {
    name: 'audit-heads',
    everyMs: minutes(1),
    async run({ now }) {
      const head = await currentHead(db)
      if (head.position === written) return { written: 0 }
      const line = signedHead(vault, head, now)
      if (config.auditHeadsFile !== '') await appendFile(config.auditHeadsFile, `${line}\n`, { mode: 0o600 })
      log.info({ head: line }, 'head of the audit log')
      written = head.position
      return { written: 1 }
    },
  }
}
