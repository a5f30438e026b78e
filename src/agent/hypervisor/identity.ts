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
    ...(how.renew ? [['machine_id', machineId(home.vmId)] as const] : []),
    ...fresh(),
  ]
  return spoken(words)
}

/** The words of the guest's `begin` verb: the rest is on the config disk. @param mac unless it has it already */
export function beginning(mac?: string): string {
  return spoken([...fresh(), ...(mac === undefined ? [] : [['mac', mac] as const])])
}

/** For a guest that stood still: the time of now. Its answer is worth no wait. */
export const afterPause = (): string => spoken(fresh())

const fresh = (): Array<readonly [string, string]> => [
  ['seed', randomBytes(64).toString('hex')],
  ['now_us', String(Date.now() * 1000)],
]

const spoken = (words: ReadonlyArray<readonly [string, string]>) =>
  words.map(([key, value]) => `${key}=${encodeWord(value)}`).join(' ')

/** 32 hexadecimal digits (machine-id(5)), the same for a VM whenever it starts. */
export function machineId(vmId: string): string {
  return createHash('sha256').update(`machine-id ${vmId}`).digest('hex').slice(0, 32)
}
