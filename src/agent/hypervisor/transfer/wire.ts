import { connect, createServer, type Socket } from 'node:net'
import { once } from 'node:events'
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { StepError } from '../../base/step-error.ts'
import { drained } from './drained.ts'

/**
 * The protocol between two agents during a migration, for data that the hypervisor does not transfer itself. `hello`
 * opens the connection. `loaded`: the target has everything, and the VM is paused there. `go`: the source will never
 * run the VM again. `running`: the VM runs on the target. `volumes`: the address of each volume on the guest's SCSI
 * bus. `whole`: all data of a volume, or of one of its snapshots, was sent; the target answers `loaded`. `snapshot`:
 * announces the files and the description of a VM snapshot; after the files, the source sends `complete`, and the
 * target answers `loaded`.
 */
const Message = Type.Union([
  Type.Object({ say: Type.Literal('hello'), key: Type.String(), madeBy: Type.String() }),
  Type.Object({ say: Type.Literal('file'), name: Type.String(), size: Type.Integer({ minimum: 0 }) }),
  Type.Object({ say: Type.Literal('complete') }),
  Type.Object({
    say: Type.Literal('volumes'),
    addresses: Type.Record(
      Type.String(),
      Type.Object({ channel: Type.Integer(), id: Type.Integer(), lun: Type.Integer() }),
    ),
  }),
  Type.Object({
    say: Type.Literal('whole'),
    digest: Type.String(),
    snapshotId: Type.Union([Type.String(), Type.Null()]),
  }),
  Type.Object({ say: Type.Literal('snapshot'), names: Type.Array(Type.String()), taken: Type.Unknown() }),
  Type.Object({ say: Type.Literal('loaded') }),
  Type.Object({ say: Type.Literal('go') }),
  Type.Object({ say: Type.Literal('running') }),
  Type.Object({ say: Type.Literal('failed'), reason: Type.String() }),
])
export type Message = Static<typeof Message>

export type Frame =
  | { readonly kind: 'message'; readonly message: Message }
  /** Bytes of the file that the last `file` message has named. */
  | { readonly kind: 'data'; readonly offset: number; readonly data: Buffer }
  /** Bytes of the protocol between the two hypervisors. */
  | { readonly kind: 'tunnel'; readonly data: Buffer }

/**
 * Format of a frame: kind (one byte), length of the payload (four bytes, big-endian), payload. The payload of `data`
 * begins with an offset (8 bytes).
 */
const kinds = { message: 0x4a, data: 0x44, tunnel: 0x54 } as const
const headerBytes = 5
const offsetBytes = 8
/** Maximum size of a frame's payload. A longer frame is a protocol error. */
const maxBytes = 8 << 20
/** Maximum size of the first frame's payload: its sender has not shown the key yet, and may be any program. */
const maxHelloBytes = 4096

export interface Wire {
  say(message: Message): Promise<void>
  data(offset: number, data: Buffer): Promise<void>
  tunnel(data: Buffer): Promise<void>
  /** Returns the next frame; undefined at the end. @throws Error on an invalid frame or a lost connection */
  next(): Promise<Frame | undefined>
  /** Returns the next frame, which must be one of these messages. @throws StepError with the other agent's reason */
  expect<S extends Message['say']>(...says: readonly S[]): Promise<Extract<Message, { say: S }>>
  close(): void
}

/** Speaks the protocol over a socket. @param firstBytes limit on the first frame that the other agent sends */
export function wireOver(socket: Socket, firstBytes = maxBytes): Wire {
  socket.on('error', () => undefined).setNoDelay(true)
  const read = frames(socket, firstBytes)
  const send = async (kind: number, ...parts: readonly Buffer[]) => {
    const header = Buffer.alloc(headerBytes)
    header[0] = kind
    header.writeUInt32BE(
      parts.reduce((sum, part) => sum + part.length, 0),
      1,
    )
    if (socket.destroyed) throw new Error('the host at the other end of the transfer closed the connection')
    const room = socket.write(Buffer.concat([header, ...parts]))
    if (!room) await drained(socket)
  }
  const next = async () => {
    const { value } = await read.next()
    return value
  }
  return {
    say: message => send(kinds.message, Buffer.from(JSON.stringify(message))),
    data: (offset, data) => {
      const at = Buffer.alloc(offsetBytes)
      at.writeBigUInt64BE(BigInt(offset))
      return send(kinds.data, at, data)
    },
    tunnel: data => send(kinds.tunnel, data),
    next,
    async expect(...says) {
      const frame = await next()
      if (frame?.kind === 'message') {
        const { message } = frame
        if (message.say === 'failed')
          throw new StepError(
            'migration_failed',
            `the host at the other end of the transfer reported: ${message.reason}`,
          )
        if (isOneOf(message, says)) return message
      }
      throw new Error(
        frame
          ? 'the host at the other end of the transfer sent an unexpected message'
          : 'the host at the other end of the transfer closed the connection',
      )
    },
    close: () => socket.destroy(),
  }
}

function isOneOf<S extends Message['say']>(
  message: Message,
  says: readonly S[],
): message is Extract<Message, { say: S }> {
  return says.some(say => say === message.say)
}

async function* frames(socket: Socket, firstBytes: number): AsyncGenerator<Frame, undefined> {
  let rest = Buffer.alloc(0)
  let limit = firstBytes
  for await (const chunk of socket) {
    rest = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk])
    for (;;) {
      if (rest.length < headerBytes) break
      const length = rest.readUInt32BE(1)
      if (length > limit) throw new Error('the host at the other end of the transfer sent an invalid frame')
      if (rest.length < headerBytes + length) break
      yield parseFrame(rest[0] ?? 0, rest.subarray(headerBytes, headerBytes + length))
      rest = rest.subarray(headerBytes + length)
      limit = maxBytes
    }
  }
  return undefined
}

function parseFrame(kind: number, body: Buffer): Frame {
  if (kind === kinds.tunnel) return { kind: 'tunnel', data: body }
  if (kind === kinds.data && body.length >= offsetBytes) {
    return { kind: 'data', offset: Number(body.readBigUInt64BE(0)), data: body.subarray(offsetBytes) }
  }
  const message: unknown = kind === kinds.message ? JSON.parse(body.toString()) : undefined
  if (!Value.Check(Message, message)) throw new Error('the host at the other end of the transfer sent an invalid frame')
  return { kind: 'message', message }
}

/** Address of an agent that waits for a VM: `tcp://<host>:<port>?key=<hex>`. Only the source's agent gets the key. */
export interface ArrivalAddress {
  readonly host: string
  readonly port: number
  readonly key: string
}

export function formatArrival({ host, port, key }: ArrivalAddress): string {
  return `tcp://${host}:${port}?key=${key}`
}

/** Parses the address that the target reported. @throws StepError `invalid_request` */
export function parseArrival(uri: string): ArrivalAddress {
  const match = /^tcp:\/\/([^/?]+):(\d+)\?key=([0-9a-f]{32})$/.exec(uri)
  if (!match)
    throw new StepError(
      'invalid_request',
      'the migration address is invalid: use the address that the target host reported',
    )
  return { host: match[1] ?? '', port: Number(match[2]), key: match[3] ?? '' }
}

const connectMs = 10_000

/** Connects to the agent that waits for a VM, and sends `hello`. */
export async function openWire(uri: string, madeBy: string): Promise<Wire> {
  const { host, port, key } = parseArrival(uri)
  const socket = connect(port, host)
  await once(socket, 'connect', { signal: AbortSignal.timeout(connectMs) }).catch((cause: unknown) => {
    socket.destroy()
    throw new Error(`the target host does not answer on ${host}:${port}`, { cause })
  })
  const wire = wireOver(socket)
  await wire.say({ say: 'hello', key, madeBy })
  return wire
}

export interface Listener {
  readonly uri: string
  /**
   * Resolves with the first connection whose `hello` has the right key and this host's `madeBy`. Rejects if the
   * listener is closed before that.
   */
  readonly wire: Promise<Wire>
  close(): void
}

/**
 * Listens on a free port for one VM from another host.
 * @param madeBy VMM, version and CPU of this host; a VM from a host with other values is refused
 */
export async function listenForVm(host: string, madeBy: string): Promise<Listener> {
  const key = randomBytes(16).toString('hex')
  const { promise, resolve, reject } = Promise.withResolvers<Wire>()
  promise.catch(() => undefined)
  const server = createServer(socket => {
    const wire = wireOver(socket, maxHelloBytes)
    admit(wire, key, madeBy).then(
      () => {
        server.close()
        resolve(wire)
      },
      () => wire.close(),
    )
  })
  server.listen(0, host)
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    uri: formatArrival({ host, port, key }),
    wire: promise,
    close() {
      server.close()
      reject(new Error('the target host stopped waiting for the transfer'))
    },
  }
}

async function admit(wire: Wire, key: string, madeBy: string): Promise<void> {
  const hello = await wire.expect('hello')
  const given = Buffer.from(hello.key)
  if (given.length !== key.length || !timingSafeEqual(given, Buffer.from(key))) throw new Error('the key is wrong')
  if (hello.madeBy === madeBy) return
  await wire.say({ say: 'failed', reason: `the VM was started by ${hello.madeBy}, but this host has ${madeBy}` })
  throw new Error('the VMMs differ')
}
