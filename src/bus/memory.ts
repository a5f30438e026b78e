/**
 * The bus within one process. It fulfills the same contract and passes the same test suite as the NATS bus, but
 * retained messages are lost when the process ends.
 */
import { type Logger, pino } from 'pino'
import {
  type Bus,
  BusError,
  type Message,
  type MessageHandler,
  type RequestHandler,
  type RequestOptions,
  type SubscribeOptions,
  type Subscription,
} from './bus.ts'
import { levelOf } from '../lib/outage.ts'
import { onFirstAbort, withinLimits } from './limits.ts'
import { MemoryStream } from './memory-stream.ts'
import { createMessageQueue } from './message-queue.ts'
import { type StreamPolicy, streams } from './streams.ts'
import { SubjectIndex } from './subject-index.ts'
import { assertPattern, assertSubject, streamPolicyOf } from './subjects.ts'
import {
  decode,
  decodeRequest,
  encode,
  encodeAnswer,
  encodeRequest,
  failure,
  plan,
  unwrap,
  type WireAnswer,
  type WireRequest,
} from './wire.ts'

export interface MemoryBusOptions {
  /** Logger for errors of handlers. */
  readonly log?: Logger
  /** Maximum size of each stream in memory; the larger limits in `streams.ts` are for a disk. Default 64 MiB. */
  readonly maxStreamBytes?: number
  readonly nowMs?: () => number
}

export function createMemoryBus(options: MemoryBusOptions = {}): Bus {
  return new MemoryBus(options)
}

type Envelope = Omit<Message, 'data'>

interface Listener {
  readonly pattern: string
  readonly group: string | undefined
  deliver(envelope: Envelope, text: string): void
}

interface Reader {
  readonly pattern: string
  push(seq: number): void
}

interface Server {
  readonly pattern: string
  readonly group: string | undefined
  readonly handler: RequestHandler
}

class MemoryBus implements Bus {
  readonly #log: Logger
  readonly #nowMs: () => number
  readonly #streams: ReadonlyMap<string, MemoryStream>
  readonly #listeners = new SubjectIndex<Listener>()
  readonly #readers = new SubjectIndex<Reader>()
  readonly #servers = new SubjectIndex<Server>()
  readonly #closing = new AbortController()

  constructor({ log, maxStreamBytes = 64 << 20, nowMs = Date.now }: MemoryBusOptions) {
    this.#log = log ?? pino({ name: 'bus', level: 'warn' })
    this.#nowMs = nowMs
    const open = (policy: StreamPolicy) =>
      new MemoryStream({ ...policy, maxBytes: Math.min(policy.maxBytes, maxStreamBytes) }, nowMs)
    this.#streams = new Map(streams.map(policy => [policy.name, open(policy)]))
  }

  async publish(subject: string, data: unknown, { id }: { readonly id?: string } = {}): Promise<number> {
    this.#assertOpen()
    assertSubject(subject)
    const text = encode(data)
    const stream = this.#streamOf(subject)
    if (stream === undefined) {
      const envelope = { subject, seq: 0, atMs: this.#nowMs() }
      for (const listener of oneOfEachGroup(this.#listeners.matching(subject))) listener.deliver(envelope, text)
      return 0
    }
    const { seq, fresh } = stream.append(subject, text, id)
    if (fresh) for (const reader of this.#readers.matching(subject)) reader.push(seq)
    return seq
  }

  async subscribe(pattern: string, handler: MessageHandler, options: SubscribeOptions = {}): Promise<Subscription> {
    this.#assertOpen()
    plan(pattern, options)
    const stream = this.#streamOf(pattern)
    return stream === undefined
      ? this.#listen(pattern, handler, options)
      : this.#read(stream, pattern, handler, options)
  }

  async request(subject: string, data: unknown, { timeoutMs, signal }: RequestOptions): Promise<unknown> {
    this.#assertOpen()
    assertSubject(subject)
    const wire = encodeRequest(data)
    const servers = oneOfEachGroup(this.#servers.matching(subject))
    if (servers.length === 0) throw new BusError('no_responder', `no program serves ${subject}`)
    const answers = Promise.race(servers.map(server => answerOf(server.handler, subject, wire)))
    return unwrap(await withinLimits(answers, { subject, timeoutMs, signal, closing: this.#closing.signal }))
  }

  async serve(
    pattern: string,
    handler: RequestHandler,
    { group, signal }: { readonly group?: string; readonly signal?: AbortSignal } = {},
  ): Promise<Subscription> {
    this.#assertOpen()
    assertPattern(pattern)
    return this.#register(this.#servers, { pattern, group, handler }, signal, () => undefined)
  }

  connected(): boolean {
    return !this.#closing.signal.aborted
  }

  async ping(): Promise<void> {
    this.#assertOpen()
  }

  async close(): Promise<void> {
    this.#closing.abort()
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new BusError('closed', 'the bus is closed')
  }

  #streamOf(pattern: string): MemoryStream | undefined {
    return this.#streams.get(streamPolicyOf(pattern)?.name ?? '')
  }

  #listen(pattern: string, handler: MessageHandler, { group, signal }: SubscribeOptions): Subscription {
    const queue = createMessageQueue<{ envelope: Envelope; text: string }>(({ envelope, text }) =>
      this.#call(handler, envelope, text),
    )
    const deliver = (envelope: Envelope, text: string) => queue.push({ envelope, text })
    return this.#register(this.#listeners, { pattern, group, deliver }, signal, () => queue.stop())
  }

  #read(stream: MemoryStream, pattern: string, handler: MessageHandler, options: SubscribeOptions): Subscription {
    const queue = createMessageQueue<number>(async seq => {
      const message = stream.get(seq)
      if (message !== undefined) await this.#call(handler, message, message.text)
    })
    const push = (seq: number) => {
      // Limits the queue of a stuck reader to about the number of retained messages: removes messages that the stream
      // no longer retains.
      if (queue.waiting > 2 * stream.size + 1024) queue.prune(waiting => stream.get(waiting) !== undefined)
      queue.push(seq)
    }
    const { seqs, gap } = stream.replay(pattern, options.from ?? 'new')
    if (gap !== undefined) options.onGap?.(gap)
    for (const seq of seqs) queue.push(seq)
    return this.#register(this.#readers, { pattern, push }, options.signal, () => queue.stop())
  }

  /** Calls the handler with its own copy of the data, and logs its errors. */
  async #call(handler: MessageHandler, { subject, seq, atMs }: Envelope, text: string): Promise<void> {
    try {
      await handler({ subject, data: decode(text), seq, atMs })
    } catch (error) {
      this.#log[levelOf(error)]({ err: error, subject }, 'a bus handler failed')
    }
  }

  #register<T extends { readonly pattern: string }>(
    index: SubjectIndex<T>,
    item: T,
    signal: AbortSignal | undefined,
    onStop: () => void,
  ): Subscription {
    const end = () => {
      index.delete(item)
      onStop()
    }
    index.add(item)
    const unhook = onFirstAbort([signal, this.#closing.signal], end)
    return {
      stop: async () => {
        unhook()
        end()
      },
    }
  }
}

/** Returns all subscriptions without a group, and a random member of each group, as NATS does. */
function oneOfEachGroup<T extends { readonly group: string | undefined }>(all: readonly T[]): T[] {
  if (all.every(({ group }) => group === undefined)) return [...all]
  const groups = Map.groupBy(all, ({ group }) => group)
  return [...groups].flatMap(([group, members]) => {
    const chosen = members[Math.floor(Math.random() * members.length)]
    return group === undefined || chosen === undefined ? members : [chosen]
  })
}

async function answerOf(handler: RequestHandler, subject: string, wire: WireRequest): Promise<WireAnswer> {
  // Defer the call, so that a handler never runs synchronously inside the code that sent the request.
  await new Promise(resolve => setImmediate(resolve))
  try {
    return encodeAnswer(await handler(decodeRequest(wire), subject))
  } catch (error) {
    return encode(failure(error))
  }
}
