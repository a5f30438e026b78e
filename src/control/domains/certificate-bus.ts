/** Responds to requests of gateways for the certificates of hostnames and for the values of ACME challenges. */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import {
  type CertificateAnswer,
  CertificateRequest,
  type ChallengeAnswer,
  ChallengeRequest,
  gatewaySubjects,
} from '../../contract/gateway.ts'
import type { Deps } from '../base/deps.ts'
import { keyPurpose } from './certificate-sweep.ts'
import * as store from './certificate-store.ts'

export async function startCertificateServer({
  db,
  bus,
  vault,
}: Pick<Deps, 'db' | 'bus' | 'vault'>): Promise<Subscription> {
  const certificate = await bus.serve(
    gatewaySubjects.certificate,
    async (data): Promise<CertificateAnswer> => {
      const kept = await store.find(db, Value.Parse(CertificateRequest, data).hostname)
      if (!kept) return { certificate: null }
      const key = vault.open(keyPurpose, kept.privateKey)
      return { certificate: { chain: kept.chain, key, notAfterMs: kept.notAfter.getTime() } }
    },
    { group: 'control' },
  )
  const challenge = await bus.serve(
    gatewaySubjects.challenge,
    async (data): Promise<ChallengeAnswer> => {
      const { token, hostname } = Value.Parse(ChallengeRequest, data)
      return { keyAuthorization: (await store.challenge(db, token, hostname))?.keyAuthorization ?? null }
    },
    { group: 'control' },
  )
  return {
    async stop() {
      await certificate.stop()
      await challenge.stop()
    },
  }
}
