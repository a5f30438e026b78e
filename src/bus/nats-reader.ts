import { setTimeout as delay } from 'node:timers/promises'
import type { JetStreamClient, JsMsg } from '@nats-io/jetstream'
import type { Logger } from 'pino'
import type { Start } from './nats-streams.ts'

export interface ReaderOptions {
  readonly client: JetStreamClient
  readonly stream: string
  readonly pattern: string
  readonly start: Start
  readonly log: Logger
  readonly signal: AbortSignal
  /** Registers a callback for reconnects; returns a function that removes it. */
  readonly onReconnect: (callback: () => void) => () => void
  /** Processes one message of the subject. Must not throw. */
  readonly deliver: (message: JsMsg) => Promise<void>
}

const retryMs = 200

/**
 * Reads a retained subject until `signal` aborts. The server keeps the consumer only in memory, so the position is kept
 * here: after a reconnect or an error a new consumer starts after the last delivered message. (The client library would
 * detect a lost consumer only after two missed heartbeats, half a minute later.)
 */
export async function readRetained(options: ReaderOptions): Promise<void> {
  const { start, signal, log, stream } = options
  const place = { after: start.after, skip: start.skip }
  while (!signal.aborted) {
    try {
      await readUntilFault(options, place)
    } catch (error) {
      if (signal.aborted) return
      log.warn(
        { err: error, stream, after: place.after },
        'reading a bus stream failed; resuming after the last message',
      )
      await delay(retryMs, undefined, { signal }).catch(() => undefined)
    }
  }
}

async function readUntilFault(options: ReaderOptions, place: { after: number; skip: number }): Promise<void> {
  const { client, stream, pattern, signal, onReconnect, deliver } = options
  await forgetPlaceOfAnotherStream(client, stream, place)
  const consumer = await client.consumers.get(stream, { filter_subjects: pattern, opt_start_seq: place.after + 1 })
  const messages = await consumer.consume({ max_messages: 256, expires: 30_000 })
  const stop = () => messages.stop()
  const unhook = onReconnect(stop)
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    for await (const message of messages) {
      if (signal.aborted) return
      if (message.seq <= place.after) continue
      place.after = message.seq
      if (place.skip > 0) place.skip--
      else await deliver(message)
    }
  } finally {
    unhook()
    signal.removeEventListener('abort', stop)
    // Delete the consumer, ignoring errors: the server removes idle consumers by itself.
    void consumer.delete().catch(() => undefined)
  }
}

/**
 * Resets the reader's position if the stream was recreated, for example after the server lost its disk: the sequences
 * of the new stream start from 1 again.
 */
async function forgetPlaceOfAnotherStream(
  client: JetStreamClient,
  stream: string,
  place: { after: number; skip: number },
) {
  const manager = await client.jetstreamManager()
  const { state } = await manager.streams.info(stream)
  if (state.last_seq < place.after) place.after = 0
}
