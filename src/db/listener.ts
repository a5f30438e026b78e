/** LISTENs for the whole program on one dedicated connection, which is reopened after a loss. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Socket } from 'node:net'
import pg from 'pg'
import type { Logger } from 'pino'
import { clientConfig } from './driver.ts'
import { DbUnavailable, fromDriver } from './errors.ts'

const reconnectMs = 250

type OnEvent = (payload: string) => void

export class Listener {
  readonly #url: string
  readonly #log: Logger
  readonly #sockets: Set<Socket>
  readonly #channels = new Map<string, Set<OnEvent>>()
  readonly #closing = new AbortController()
  #client: Promise<pg.Client> | undefined

  constructor(url: string, log: Logger, sockets: Set<Socket>) {
    this.#url = url
    this.#log = log
    this.#sockets = sockets
  }

  async listen(channel: string, onEvent: OnEvent): Promise<{ stop(): Promise<void> }> {
    if (this.#closing.signal.aborted)
      throw new DbUnavailable('closed', 'the database connections of this program were closed')
    const listeners = this.#channels.get(channel) ?? new Set()
    this.#channels.set(channel, listeners)
    listeners.add(onEvent)
    try {
      this.#client ??= this.#connect()
      const client = await this.#client
      await client.query(`LISTEN ${pg.escapeIdentifier(channel)}`)
    } catch (error) {
      this.#forget(channel, onEvent)
      throw fromDriver(error, 'db.listen')
    }
    return {
      stop: async () => {
        if (!this.#forget(channel, onEvent)) return
        const client = await this.#client?.catch(() => undefined)
        // Ignore a failed UNLISTEN: a lost connection has no subscriptions any more.
        await client?.query(`UNLISTEN ${pg.escapeIdentifier(channel)}`).catch(() => undefined)
      },
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#channels.clear()
    const client = await this.#client?.catch(() => undefined)
    await client?.end()
  }

  /** Removes the callback. Returns true if the channel has no callbacks left. */
  #forget(channel: string, onEvent: OnEvent): boolean {
    const listeners = this.#channels.get(channel)
    listeners?.delete(onEvent)
    if (listeners === undefined || listeners.size > 0) return false
    this.#channels.delete(channel)
    return true
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client(clientConfig(this.#url, 'mote-listen', this.#sockets))
    // Without this listener, an error that the client emits after a failed connect would crash the process.
    client.on('error', () => undefined)
    client.on('notification', message => {
      for (const onEvent of this.#channels.get(message.channel) ?? []) onEvent(message.payload ?? '')
    })
    try {
      await client.connect()
    } catch (error) {
      this.#client = undefined
      throw fromDriver(error, 'db.listen')
    }
    client.once('end', () => {
      this.#client = undefined
      if (!this.#closing.signal.aborted) void this.#reconnect()
    })
    return client
  }

  async #reconnect(): Promise<void> {
    this.#log.warn('the listen connection to the database was lost; reconnecting')
    while (!this.#closing.signal.aborted && this.#channels.size > 0) {
      try {
        this.#client ??= this.#connect()
        const client = await this.#client
        for (const channel of this.#channels.keys()) await client.query(`LISTEN ${pg.escapeIdentifier(channel)}`)
        for (const listeners of this.#channels.values()) for (const onEvent of listeners) onEvent('')
        return
      } catch {
        await delay(reconnectMs, undefined, { signal: this.#closing.signal }).catch(() => undefined)
      }
    }
  }
}
