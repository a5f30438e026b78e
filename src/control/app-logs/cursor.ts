import type { LogKey } from '../../contract/agent.ts'
import { invalidField } from '../http/errors.ts'

const key = /^(\d{1,16})\.([0-9a-zA-Z_-]{0,64})$/

export const cursorOf = ({ atUs, vmId }: LogKey): string => Buffer.from(`${atUs}.${vmId}`).toString('base64url')

/** Parses a cursor. @throws ApiError 400 unless an earlier page of the list returned this cursor */
export function keyOf(cursor: string): LogKey {
  const [, atUs, vmId] = key.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (atUs === undefined || vmId === undefined || !Number.isSafeInteger(Number(atUs)))
    throw invalidField('cursor', 'Give the next_cursor or prev_cursor of another page.')
  return { atUs: Number(atUs), vmId }
}
