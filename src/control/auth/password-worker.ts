/**
 * A thread that hashes passwords, one at a time. It runs at low priority, so that other requests are served first on
 * few cores.
 */
import { parentPort } from 'node:worker_threads'
import { hashSync, verifySync } from '@node-rs/argon2'
import { lowerOwnPriority } from '../../lib/low-priority.ts'
import type { HashJob, HashResult } from './hash-threads.ts'

/**
 * Niceness of the thread. On a busy machine it gets a tenth of a core: a sign-in then takes 0.1 s instead of 0.01 s,
 * but is never starved.
 */
const niceness = 10

lowerOwnPriority(niceness)

function perform(job: HashJob): HashResult {
  try {
    if (job.kind === 'hash') return { ok: true, value: hashSync(job.password, job.parameters) }
    return { ok: true, value: verifySync(job.stored, job.password) }
  } catch (cause) {
    return { ok: false, message: cause instanceof Error ? cause.message : 'argon2 failed' }
  }
}

parentPort?.on('message', (job: HashJob) => parentPort?.postMessage(perform(job), []))
