import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { connect, isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Time to wait for one upstream resolver before the next one is tried. */
const answerMs = 2_000

/** Forwards a query unchanged, and returns the upstream's response. @throws Error when no resolver responded */
export type Forward = (query: Buffer, over: 'udp' | 'tcp', signal: AbortSignal) => Promise<Buffer>

/** Returns a function that forwards queries. @param upstreams tried in order, `host` or `host#port` */
export function forwarder(upstreams: readonly string[]): Forward {
  const servers = upstreams.map(text => {
    const [host = '', port] = text.split('#')
    return { host, port: port ? Number(port) : 53 }
  })
  return async (query, over, signal) => {
    const ask = over === 'udp' ? askUdp : askTcp
    for (const server of servers) {
      const answer = await ask(query, server, signal).catch(() => undefined)
      if (answer) return answer
      signal.throwIfAborted()
    }
    throw new Error('no resolver of the host answered')
  }
}

/** Returns the addresses of the host's own resolvers. */
export function hostResolvers(file = '/etc/resolv.conf'): string[] {
  const found = readFileSync(file, 'utf8').matchAll(/^nameserver\s+(\S+)/gm)
  return [...found].map(([, address = '']) => address).filter(address => isIP(address.split('%')[0] ?? '') !== 0)
}

interface Server {
  readonly host: string
  readonly port: number
}

async function askUdp(query: Buffer, { host, port }: Server, signal: AbortSignal): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  // Uses one socket per query: a forged response would have to guess both its random port and the query id.
  const socket = createSocket({ type: host.includes(':') ? 'udp6' : 'udp4' })
  const late = new AbortController()
  try {
    socket.on('error', reject)
    socket.on('message', message => {
      if (message.subarray(0, 2).equals(query.subarray(0, 2))) resolve(message)
    })
    socket.connect(port, host, () => socket.send(query))
    sleep(answerMs, undefined, { signal: AbortSignal.any([signal, late.signal]) }).then(
      () => reject(new Error(`${host} does not answer`)),
      reject,
    )
    return await promise
  } finally {
    late.abort()
    socket.close()
  }
}

async function askTcp(query: Buffer, { host, port }: Server, signal: AbortSignal): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const socket = connect({ host, port, timeout: answerMs, signal })
  try {
    socket.on('error', reject)
    socket.on('timeout', () => reject(new Error(`${host} does not answer`)))
    socket.on('close', () => reject(new Error(`${host} closed the connection`)))
    socket.on('data', messages(resolve))
    socket.write(framed(query))
    return await promise
  } finally {
    socket.destroy()
  }
}

/** Prefixes a message with its length, as TCP requires (RFC 1035 4.2.2). */
export function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(message.length)
  return Buffer.concat([length, message])
}

/** Returns a function that takes chunks of a TCP stream, and calls `onMessage` for each DNS message in it. */
export function messages(onMessage: (message: Buffer) => void): (data: Buffer) => void {
  let rest = Buffer.alloc(0)
  return data => {
    rest = Buffer.concat([rest, data])
    while (rest.length >= 2) {
      const length = rest.readUInt16BE(0)
      if (rest.length < 2 + length) return
      onMessage(rest.subarray(2, 2 + length))
      rest = rest.subarray(2 + length)
    }
  }
}
