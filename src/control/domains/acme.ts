/** Requests certificates from a certificate authority (RFC 8555). Every gateway responds to HTTP-01 challenges. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:https'
import type { Client } from 'acme-client'
import { once } from '../../lib/once.ts'
import type { Deps } from '../base/deps.ts'
import * as store from './certificate-store.ts'

export interface Issued {
  readonly chain: string
  readonly key: string
  readonly notBefore: Date
  readonly notAfter: Date
}

/**
 * Requests a certificate for the hostname. The certificate's private key does not leave this process: the authority
 * gets only a signing request.
 * @throws Error with the authority's reason
 */
export type Issue = (hostname: string, signal: AbortSignal) => Promise<Issued>

const accountPurpose = 'acme.account'

/** Returns the function that requests certificates; undefined if no certificate authority is configured. */
export function createIssuer(deps: Pick<Deps, 'db' | 'config' | 'vault'>): Issue | undefined {
  const { acmeDirectory, acmeEmail, acmeCa } = deps.config
  if (acmeDirectory === '') return undefined
  const ca = acmeCa === '' ? undefined : readFileSync(acmeCa, 'utf8')
  const library = once(async () => {
    const { default: acme } = await import('acme-client')
    // The API of a private certificate authority has a certificate of the authority's own CA. The ACME client has no
    // option for a CA, so it is set in the client's HTTP library.
    if (ca !== undefined) acme.axios.defaults.httpsAgent = new Agent({ ca })
    return acme
  })
  const accountKey = async () => {
    const acme = await library()
    const make = async () => deps.vault.seal(accountPurpose, String(await acme.crypto.createPrivateEcdsaKey('P-256')))
    return deps.vault.open(accountPurpose, await store.account(deps.db, acmeDirectory, make))
  }
  return async (hostname, signal) => {
    const acme = await library()
    const newKey = await acme.crypto.createPrivateEcdsaKey('P-256')
    const client = new acme.Client({
      directoryUrl: acmeDirectory,
      accountKey: await accountKey(),
      backoffAttempts: 12,
      backoffMin: 500,
      backoffMax: 10_000,
    })
    await signIn(client, acmeEmail)
    const [key, csr] = await acme.crypto.createCsr({ commonName: hostname, altNames: [hostname] }, newKey)
    const order = client.auto({
      csr,
      challengePriority: ['http-01'],
      // The client's own check of the challenge is skipped: it would resolve the hostname on this host, where the name
      // may have another address than on the internet.
      skipChallengeVerification: true,
      challengeCreateFn: (_authorization, { token }, answer) => store.setChallenge(deps.db, token, hostname, answer),
      challengeRemoveFn: (_authorization, { token }) => store.clearChallenge(deps.db, token),
    })
    const chain = await Promise.race([order, rejection(signal)])
    const own = new X509Certificate(chain)
    return { chain, key: String(key), notBefore: own.validFromDate, notAfter: own.validToDate }
  }
}

/** Creates the account at the certificate authority for the account key, or finds the existing one. */
async function signIn(client: Client, email: string): Promise<void> {
  const contact = email === '' ? {} : { contact: [`mailto:${email}`] }
  try {
    await client.createAccount({ termsOfServiceAgreed: true, ...contact })
  } catch (cause) {
    // If the account exists, the client also sends an empty update, which some authorities refuse. That is harmless if
    // the client already has the account's URL.
    try {
      client.getAccountUrl()
    } catch {
      throw cause
    }
  }
}

/**
 * Rejects when the signal aborts. The ACME client itself cannot be aborted: its remaining requests are harmless, and
 * its result is dropped.
 */
const rejection = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
