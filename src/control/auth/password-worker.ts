/**
 * A thread that hashes passwords, one at a time. Its priority is low: on Linux `setPriority(0)` is about the calling
 * thread alone, so requests of others are served first when cores are few.
 */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { hashSync, verifySync } from '@node-rs/argon2'
import type { HashJob, HashResult } from './hash-threads.ts'

/** A tenth of a core against busy neighbours: a login then takes 0.1 s rather than 0.01 s, but it is never starved. */
const niceness = 10

if (process.platform === 'linux') setPriority(0, niceness)

function perform(job: HashJob): HashResult {
  try {
    if (job.kind === 'hash') return { ok: true, value: hashSync(job.password, job.parameters) }
    return { ok: true, value: verifySync(job.stored, job.password) }
  } catch (cause) {
    return { ok: false, message: cause instanceof Error ? cause.message : 'argon2 failed' }
  }
}

parentPort?.on('message', (job: HashJob) => parentPort?.postMessage(perform(job), []))
