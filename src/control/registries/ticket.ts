/**
 * Tickets: short-lived passwords with which a host pulls or pushes one repository of the installation's own registry.
 */
import { type Static, Type } from 'typebox'
import type { Vault } from '../../lib/vault.ts'
import { readSigned, sign } from '../bastion/index.ts'

const Ticket = Type.Object({ repository: Type.String(), push: Type.Boolean(), untilMs: Type.Number() })
export type Ticket = Static<typeof Ticket>

const prefix = 'mote_ticket_'
const purpose = 'registry.ticket'

export const ticketUser = 'mote-host'

export const writeTicket = (vault: Vault, ticket: Ticket): string => `${prefix}${sign(vault, purpose, ticket)}`

/** Verifies a ticket and returns its content; undefined if the ticket is forged or has expired. */
export function readTicket(vault: Vault, text: string, nowMs: number): Ticket | undefined {
  if (!text.startsWith(prefix)) return undefined
  const ticket = readSigned(vault, purpose, Ticket, text.slice(prefix.length))
  return ticket && ticket.untilMs > nowMs ? ticket : undefined
}
