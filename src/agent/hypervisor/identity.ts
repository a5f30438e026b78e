import { createHash, randomBytes } from 'node:crypto'
import { encodeWord } from '../../lib/words.ts'
import type { VmHome } from './driver.ts'
import type { VmNotes } from './prepare.ts'

export const identityMs = 5_000

/** Returns the arguments of the guest's `identity` command (guest/identity.c). */
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

/**
 * Returns the arguments of the guest's `begin` command, which continues the boot of a VM that starts from a template.
 * All other settings are on the config disk.
 * @param mac MAC address of the VM, if the template has another one
 */
export function beginning(mac?: string): string {
  return spoken([...fresh(), ...(mac === undefined ? [] : [['mac', mac] as const])])
}

/**
 * Returns the arguments of the guest's `identity` command after a pause: they set the guest's clock and reseed its
 * random generator. Callers need not wait for the guest's answer.
 */
export const afterPause = (): string => spoken(fresh())

const fresh = (): Array<readonly [string, string]> => [
  ['seed', randomBytes(64).toString('hex')],
  ['now_us', String(Date.now() * 1000)],
]

const spoken = (words: ReadonlyArray<readonly [string, string]>) =>
  words.map(([key, value]) => `${key}=${encodeWord(value)}`).join(' ')

/** Returns the VM's machine id: 32 hexadecimal digits (machine-id(5)), the same at every start. */
export function machineId(vmId: string): string {
  return createHash('sha256').update(`machine-id ${vmId}`).digest('hex').slice(0, 32)
}
