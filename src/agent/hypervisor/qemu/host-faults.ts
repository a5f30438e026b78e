/** What goes wrong at a start and is neither the guest's doing nor the template's: it is the host that has to be mended. */
import { CommandError } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import type { Network } from '../../net/net.ts'
import { StepError } from '../../base/step-error.ts'

/** Code of a StepError: the rules of the VM's network could not be loaded. Not final: it is tried again, later and later. */
export const networkFailed = 'network_failed'

/** As `Network.held`. @throws StepError `network_failed` */
export async function heldBy(network: Pick<Network, 'held'>, vmId: string): Promise<void> {
  try {
    await network.held(vmId)
  } catch (error) {
    const message = `the firewall rules of the VM could not be loaded, see to nft on its host: ${messageOf(error)}`
    throw new StepError(networkFailed, message, { cause: error })
  }
}

export function isNetworkFault(error: unknown): boolean {
  return error instanceof StepError && error.code === networkFailed
}

/** No room (ENOSPC) or none for this user (EDQUOT), seen by this process or by a program that it ran (strerror(3) in C). */
export function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (hasCode(error, 'ENOSPC') || hasCode(error, 'EDQUOT')) return true
  if (error instanceof CommandError && /No space left on device|Disk quota exceeded/.test(error.stderr)) return true
  return isDiskFull(error.cause)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
