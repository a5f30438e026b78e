/**
 * A thread that hashes passwords, one at a time. Its priority is low, so requests of others are served first when cores
 * are few.
 */
import { parentPort } from 'node:worker_threads'
import { hashSync, verifySync } from '@node-rs/argon2'
import { lowerOwnPriority } from '../../lib/low-priority.ts'
import type { HashJob, HashResult } from './hash-threads.ts'

/** A tenth of a core against busy neighbours: a login then takes 0.1 s rather than 0.01 s, but it is never starved. */
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
