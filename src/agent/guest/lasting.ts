import { setTimeout as sleep } from 'node:timers/promises'
import { parseWords, Status } from './answers.ts'
import { type GuestChannel, type GuestConnection, type GuestEvents, openGuest } from './channel.ts'
import { GuestFault } from './fault.ts'
import type { Frame } from './frames.ts'
import type { GuestPorts } from './ports.ts'

/**
 * Pauses between attempts to connect. They are short during the first minute, because a booting guest refuses
 * connections until its init listens.
 */
const retryMs = 10
const slowRetryMs = 100
const slowAfterMs = 60_000

/**
 * A channel that reconnects when its ports close while the guest runs: vsock connections close when a snapshot is taken
 * or restored. It delivers no frame twice, and reports an exit that happened during the interruption. Requests wait for
 * a connection; a request in flight is rejected when the connection closes.
 * @param alive whether the VMM's process is running; if it is not, the channel closes for good
 */
export function lastingGuest(
  ports: GuestPorts,
  fromSeq: number,
  events: GuestEvents,
  alive: () => boolean,
): GuestChannel {
  const ready = Promise.withResolvers<string>()
  const closed = Promise.withResolvers<void>()
  ready.promise.catch(() => undefined)
  let next = Promise.withResolvers<GuestConnection>()
  next.promise.catch(() => undefined)
  let current: GuestConnection | undefined
  let answering: GuestConnection | undefined
  let ended = false
  let acked = fromSeq
  let delivered = fromSeq
  const onFrames = (frames: readonly Frame[]) => {
    const fresh = frames.filter(({ seq }) => seq > delivered)
    delivered = Math.max(delivered, fresh.at(-1)?.seq ?? 0)
    if (fresh.length > 0) events.onFrames(fresh)
  }
  const live = async () => {
    const connection = await openGuest(ports, acked, { ...events, onFrames })
    current = connection
    try {
      const status = await Promise.race([connection.ready, connection.broken.then(() => undefined)])
      if (status === undefined || ended) return
      ready.resolve(status)
      next.resolve(connection)
      answering = connection
      const [word, code] = parseWords(Status, status)
      if (word === 'exited') events.onExit(code)
      await connection.broken
    } finally {
      // After a protocol violation, do not connect again: the guest could repeat the violation a hundred times per
      // second.
      if (connection.fault()) ended = true
      next = Promise.withResolvers<GuestConnection>()
      next.promise.catch(() => undefined)
      current = answering = undefined
      connection.close()
      await connection.closed
    }
  }
  const keep = async () => {
    const startedMs = performance.now()
    while (!ended && alive()) {
      await live().catch((error: unknown) => {
        if (!(error instanceof GuestFault)) return
        if (!ended) events.onBroken(error)
        ended = true
      })
      if (!ended && alive()) await sleep(performance.now() - startedMs < slowAfterMs ? retryMs : slowRetryMs)
    }
    ended = true
    const gone = new Error('the connection to the guest is closed')
    ready.reject(gone)
    next.reject(gone)
    closed.resolve()
  }
  void keep()
  return {
    async request(verb, timeoutMs, options) {
      // Fast path: while the channel is connected, a request needs no timer to wait for a connection.
      if (answering) return answering.request(verb, timeoutMs, options)
      const late = new AbortController()
      try {
        const waited = sleep(timeoutMs, undefined, { signal: late.signal }).then(() => undefined)
        waited.catch(() => undefined)
        const connection = await (timeoutMs > 0 ? Promise.race([next.promise, waited]) : next.promise)
        if (!connection)
          throw new Error(`the guest could not be reached for "${verb.split(' ')[0]}" in ${timeoutMs} ms`)
        return await connection.request(verb, timeoutMs, options)
      } finally {
        late.abort()
      }
    },
    said: what => next.promise.then(connection => connection.said(what)),
    ack(seq) {
      acked = Math.max(acked, seq)
      current?.ack(seq)
    },
    ready: ready.promise,
    closed: closed.promise,
    close() {
      ended = true
      current?.close()
    },
  }
}
