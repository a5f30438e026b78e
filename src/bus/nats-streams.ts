/** Creates the streams of `streams.ts` in JetStream, and finds the position at which a subscription starts. */
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
} from '@nats-io/jetstream'
import type { StreamPolicy } from './streams.ts'
import { duplicateWindowMs } from './wire.ts'

const nanosPerMs = 1_000_000

/** Creates a stream, or updates the limits of an existing one. Safe to run concurrently in several processes. */
export async function ensureStream(manager: JetStreamManager, policy: StreamPolicy): Promise<void> {
  const limits = {
    subjects: [...policy.subjects],
    max_age: policy.maxAgeSeconds * 1000 * nanosPerMs,
    max_bytes: policy.maxBytes,
    max_msgs_per_subject: policy.maxPerSubject,
    duplicate_window: duplicateWindowMs * nanosPerMs,
    discard: DiscardPolicy.Old,
    // `firstKept` gets messages by subject, for which JetStream requires `allow_direct`.
    allow_direct: true,
  }
  const exists = await manager.streams.info(policy.name).then(
    () => true,
    (error: unknown) => {
      if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound) return false
      throw error
    },
  )
  if (exists) await manager.streams.update(policy.name, limits)
  // Succeeds even if another process has just added the stream with the same limits.
  else
    await manager.streams.add({
      name: policy.name,
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      ...limits,
    })
}

export interface Start {
  /** Sequence of the last message before the position at which the reader starts. */
  readonly after: number
  /** `after` is an estimate: the reader must skip this many matching messages that follow it. */
  readonly skip: number
  readonly gap: { readonly after: number; readonly firstKept: number } | undefined
}

type From = 'new' | number | { readonly last: number }

/** Converts the option `from` to a sequence, so that the reader can resume from a sequence after a reconnect. */
export async function findStart(
  manager: JetStreamManager,
  policy: StreamPolicy,
  pattern: string,
  from: From,
): Promise<Start> {
  const { state } = await manager.streams.info(policy.name)
  if (from === 'new') return { after: state.last_seq, skip: 0, gap: undefined }
  if (typeof from === 'object')
    return { ...(await lastMessages(manager, policy, pattern, from.last, state.last_seq)), gap: undefined }
  // A sequence after the stream's last one is from before the stream was recreated, so all messages are new to the
  // reader.
  const restarted = from > state.last_seq
  const after = restarted ? 0 : from
  if (!restarted && !(await droppedAfter(manager, policy, pattern, from, state.first_seq)))
    return { after, skip: 0, gap: undefined }
  const next = await firstKept(manager, policy, pattern, after + 1)
  return { after, skip: 0, gap: { after: from, firstKept: next ?? state.last_seq + 1 } }
}

async function droppedAfter(
  manager: JetStreamManager,
  policy: StreamPolicy,
  pattern: string,
  after: number,
  firstSeq: number,
): Promise<boolean> {
  if (firstSeq > after + 1) return true
  const { state } = await manager.streams.info(policy.name, { subjects_filter: pattern })
  for (const [subject, count] of Object.entries(state.subjects ?? {})) {
    if (count < policy.maxPerSubject) continue
    const oldest = await firstKept(manager, policy, subject, 1)
    if (oldest !== undefined && oldest > after + 1) return true
  }
  return false
}

async function firstKept(
  manager: JetStreamManager,
  policy: StreamPolicy,
  pattern: string,
  fromSeq: number,
): Promise<number | undefined> {
  const message = await manager.direct.getMessage(policy.name, { seq: fromSeq, next_by_subj: pattern })
  return message?.seq
}

/**
 * Finds the start of the newest `count` messages. JetStream cannot start at that position directly, but reports how
 * many messages follow a given start: the start moves back in doubling steps until enough follow, and the reader skips
 * the excess.
 */
async function lastMessages(
  manager: JetStreamManager,
  policy: StreamPolicy,
  pattern: string,
  count: number,
  lastSeq: number,
) {
  if (count <= 0) return { after: lastSeq, skip: 0 }
  for (let back = count; ; back *= 2) {
    const after = Math.max(0, lastSeq - back)
    const following = await messagesAfter(manager, policy, pattern, after)
    if (following >= count || after === 0) return { after, skip: Math.max(0, following - count) }
  }
}

async function messagesAfter(
  manager: JetStreamManager,
  policy: StreamPolicy,
  pattern: string,
  after: number,
): Promise<number> {
  const probe = await manager.consumers.add(policy.name, {
    filter_subject: pattern,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: after + 1,
    ack_policy: AckPolicy.None,
    mem_storage: true,
    inactive_threshold: 5_000 * nanosPerMs,
  })
  await manager.consumers.delete(policy.name, probe.name)
  return probe.num_pending
}
