/**
 * Finds the certificate of a hostname: in files, otherwise from control. Control is queried at the first connection,
 * and only for hostnames with a route. While control is unreachable, cached certificates stay in use.
 */
import { type SecureContext, createSecureContext } from 'node:tls'
import { Value } from 'typebox/value'
import type { Logger } from 'pino'
import type { Bus, Subscription } from '../../bus/bus.ts'
import { CertificateAnswer, CertificateRequest, gatewaySubjects } from '../../contract/gateway.ts'
import type { CertificateFiles } from './files.ts'

export interface Certificates {
  find(hostname: string): Promise<SecureContext | undefined>
  stop(): Promise<void>
}

const askTimeoutMs = 5000
/**
 * How long a certificate from control is cached. It is then fetched again, in case the message about a renewal was
 * lost.
 */
const freshMs = 3_600_000
/**
 * How long the gateway caches that a hostname has no certificate. Short, because the hostname may get one at any
 * moment.
 */
const noneMs = 5000

interface Known {
  readonly context: SecureContext | undefined
  readonly askedMs: number
}

export async function openCertificates(deps: {
  readonly bus: Bus
  readonly log: Logger
  readonly files: CertificateFiles | undefined
  readonly isRouted: (hostname: string) => boolean
}): Promise<Certificates> {
  const known = new Map<string, Known>()
  const asking = new Map<string, Promise<SecureContext | undefined>>()
  const changes: Subscription = await deps.bus.subscribe(gatewaySubjects.certificateChanged, message => {
    const { hostname } = Value.Parse(CertificateRequest, message.data)
    const entry = known.get(hostname)
    if (entry) known.set(hostname, { ...entry, askedMs: Number.NEGATIVE_INFINITY })
  })
  const ask = async (hostname: string): Promise<SecureContext | undefined> => {
    const before = known.get(hostname)?.context
    try {
      const raw = await deps.bus.request(gatewaySubjects.certificate, { hostname }, { timeoutMs: askTimeoutMs })
      const { certificate } = Value.Parse(CertificateAnswer, raw)
      const context = certificate ? createSecureContext({ cert: certificate.chain, key: certificate.key }) : undefined
      known.set(hostname, { context, askedMs: performance.now() })
      return context
    } catch (cause) {
      deps.log.warn({ err: cause, hostname }, 'cannot fetch a certificate')
      known.set(hostname, { context: before, askedMs: performance.now() - freshMs + noneMs })
      return before
    }
  }
  return {
    async find(hostname) {
      const file = deps.files?.find(hostname)
      if (file) return file
      if (!deps.isRouted(hostname)) {
        known.delete(hostname)
        return undefined
      }
      const entry = known.get(hostname)
      if (entry && performance.now() - entry.askedMs < (entry.context ? freshMs : noneMs)) return entry.context
      let question = asking.get(hostname)
      if (!question) {
        question = ask(hostname).finally(() => asking.delete(hostname))
        asking.set(hostname, question)
      }
      return question
    },
    async stop() {
      await changes.stop()
      await deps.files?.stop()
    },
  }
}
