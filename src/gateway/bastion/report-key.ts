/** Reports the bastion's host key to control, so that the API can return it to clients. */
import ssh2 from 'ssh2'
import type { Bus } from '../../bus/bus.ts'
import { type BastionKey, gatewaySubjects } from '../../contract/gateway.ts'

/**
 * Returns the public key of a private key, in the format of known_hosts(5) but without the host name. @param privateKey
 * in OpenSSH's format
 */
export function publicKeyOf(privateKey: string): string {
  const parsed = ssh2.utils.parseKey(privateKey)
  if (parsed instanceof Error) throw parsed
  const [key] = [parsed].flat()
  if (!key) throw new Error('BUG: the host key of the bastion is invalid')
  return `${key.type} ${key.getPublicSSH().toString('base64')}`
}

const everyMs = 60_000
/** Delay before a failed report is repeated; short, because control may start after the gateway. */
const retryMs = 2000

/** Reports the key immediately, and again every minute. @returns a function that stops the reports */
export function reportKey(bus: Bus, publicKey: string): () => void {
  const report: BastionKey = { publicKey }
  const stopped = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const send = async () => {
    const isKnown = await bus.request(gatewaySubjects.tunnelKey, report, { timeoutMs: 5000 }).then(
      () => true,
      () => false,
    )
    if (!stopped.signal.aborted) timer = setTimeout(() => void send(), isKnown ? everyMs : retryMs).unref()
  }
  void send()
  return () => {
    stopped.abort()
    clearTimeout(timer)
  }
}
