import { createHash, randomBytes } from 'node:crypto'
import { encodeWord } from '../guest/words.ts'
import type { VmHome } from './driver.ts'
import type { VmNotes } from './prepare.ts'

export const identityMs = 5_000

/** The words of the guest's `identity` verb (guest/identity.c). */
export function identity(home: VmHome, notes: VmNotes, how: { moved: boolean; renew: boolean }): string {
  const settings: unknown = how.moved ? JSON.parse(notes.guest) : {}
  const network = Object.entries(typeof settings === 'object' && settings !== null ? settings : {})
  const words: Array<readonly [string, string]> = [
    ['hostname', home.spec.hostname],
    ...network.map(([key, value]) => [key === 'gatewayMac' ? 'gateway_mac' : key, String(value)] as const),
    ...(how.moved ? [['mac', notes.mac] as const] : []),
    ...(how.renew ? [['machine_id', `${machineId(home.vmId)}\n`] as const] : []),
    ['seed', randomBytes(64).toString('hex')],
    ['now_us', String(Date.now() * 1000)],
  ]
  return words.map(([key, value]) => `${key}=${encodeWord(value)}`).join(' ')
}

/** 32 hexadecimal digits (machine-id(5)), the same for a VM whenever it starts. */
function machineId(vmId: string): string {
  return createHash('sha256').update(`machine-id ${vmId}`).digest('hex').slice(0, 32)
}
