/** Faults of the host while a VM starts. Neither the guest nor its template causes them; the host must be repaired. */
import type { Network } from '../../net/net.ts'
import { StepError } from '../../base/step-error.ts'

/** StepError code: the firewall rules of the VM could not be loaded. The start is retried with backoff. */
export const networkFailed = 'network_failed'

/** Waits until the VM's firewall rules are loaded (`Network.held`). @throws StepError `network_failed` */
export async function heldBy(network: Pick<Network, 'held'>, vmId: string): Promise<void> {
  try {
    await network.held(vmId)
  } catch (error) {
    const message = `the firewall rules of the VM could not be loaded; check nft on the host: ${messageOf(error)}`
    throw new StepError(networkFailed, message, { cause: error })
  }
}

export function isNetworkFault(error: unknown): boolean {
  return error instanceof StepError && error.code === networkFailed
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
