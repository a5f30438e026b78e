/** A DNS server on loopback with records that the test sets, and NXDOMAIN for everything else. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { decode, encode } from 'dns-packet'

/** DNS response codes (RFC 1035, 4.1.1). */
const rcode = { ok: 0, serverFailure: 2, noSuchName: 3 }

export interface TestDns extends AsyncDisposable {
  /** Address of the DNS server, as `address:port`. */
  readonly server: string
  readonly txt: Map<string, readonly string[]>
  /** Names that resolve to 127.0.0.1. */
  readonly local: Set<string>
  /** While true, every query is answered with SERVFAIL. */
  broken: boolean
}

export async function startTestDns(): Promise<TestDns> {
  const socket = createSocket('udp4')
  const txt = new Map<string, readonly string[]>()
  const local = new Set<string>()
  const state = { broken: false }
  socket.on('message', (message, from) => {
    const { id, questions = [] } = decode(message)
    const [question] = questions
    if (!question) return
    const values = question.type === 'TXT' ? txt.get(question.name.toLowerCase()) : undefined
    const isHere = local.has(question.name.toLowerCase())
    const texts = (values ?? []).map(data => ({ type: 'TXT' as const, name: question.name, ttl: 1, data }))
    const here =
      isHere && question.type === 'A' ? [{ type: 'A' as const, name: question.name, ttl: 1, data: '127.0.0.1' }] : []
    const answers = [...texts, ...here]
    const code = state.broken ? rcode.serverFailure : values || isHere ? rcode.ok : rcode.noSuchName
    socket.send(
      encode({ type: 'response', id: id ?? 0, flags: 0x180 | code, questions, answers }),
      from.port,
      from.address,
    )
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    server: `127.0.0.1:${socket.address().port}`,
    txt,
    local,
    get broken() {
      return state.broken
    },
    set broken(value) {
      state.broken = value
    },
    async [Symbol.asyncDispose]() {
      socket.close()
      await once(socket, 'close')
    },
  }
}
