/** Issues and renews certificates for verified domains. */
import { gatewaySubjects } from '../../contract/gateway.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import type { Issue } from './acme.ts'
import * as store from './certificate-store.ts'
import { certificateSweepName } from './sweep-name.ts'

/** Encryption purpose of the private keys of certificates. */
export const keyPurpose = 'certificate.key'

const atOnce = 4
const eachRun = 20
const longestMs = seconds(90)

type SweepDeps = Pick<Deps, 'db' | 'bus' | 'vault' | 'log'>

/** The sweep that issues and renews certificates. @param issue undefined if no certificate authority is configured */
export const certificates = (deps: SweepDeps, issue: Issue | undefined): Sweep => ({
  name: certificateSweepName,
  everyMs: seconds(30),
  async run({ now, signal }) {
    if (!issue) return { due: 0 }
    await store.forgetExpired(deps.db)
    const due = await store.dueAt(deps.db, now, eachRun)
    let issued = 0
    for (let at = 0; at < due.length && !signal.aborted; at += atOnce) {
      const tries = due.slice(at, at + atOnce).map(one => issueOne(deps, issue, one, signal))
      issued += (await Promise.all(tries)).filter(Boolean).length
    }
    return { due: due.length, issued }
  },
})

async function issueOne(
  deps: SweepDeps,
  issue: Issue,
  due: store.DueCertificate,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const made = await issue(due.name, AbortSignal.any([signal, AbortSignal.timeout(longestMs)]))
    const privateKey = deps.vault.seal(keyPurpose, made.key)
    await deps.db.tx(tx => store.keep(tx, due.domainId, { ...made, privateKey }))
    await deps.bus.publish(gatewaySubjects.certificateChanged, { hostname: due.name })
    return true
  } catch (cause) {
    if (signal.aborted) return false
    const message = cause instanceof Error ? cause.message : String(cause)
    deps.log.warn({ err: cause, hostname: due.name }, 'a certificate could not be issued')
    await store.fail(deps.db, due.domainId, message.slice(0, 1000), pauseMs(due.failures))
    return false
  }
}

/**
 * Returns the delay after failed requests for a certificate. Authorities allow only a few failures per hour (Let's
 * Encrypt: five per name).
 */
const pauseMs = (failures: number) => Math.min(minutes(15) * 2 ** failures, hours(24))
