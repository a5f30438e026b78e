/**
 * Program that acts as an endpoint in a network namespace: listens on ports, and connects to others on request.
 * Requests on stdin and responses on stdout are lines of JSON.
 */
import { createSocket } from 'node:dgram'
import { connect, createServer } from 'node:net'
import { createInterface } from 'node:readline'

type Request =
  | { readonly id: number; readonly verb: 'listen'; readonly port: number }
  | { readonly id: number; readonly verb: 'heard'; readonly text: string }
  | {
      readonly id: number
      readonly verb: 'tcp' | 'udp'
      readonly host: string
      readonly port: number
      readonly from?: string
      readonly text?: string
      readonly limitMs: number
    }
  | {
      readonly id: number
      readonly verb: 'stream'
      readonly host: string
      readonly port: number
      readonly bytes: number
    }
  | ({ readonly id: number; readonly verb: 'flood' } & Flood)

interface Flood {
  readonly host: string
  readonly port: number
  /** Number of sockets to send from. */
  readonly sockets: number
  /** Number of datagrams per socket. */
  readonly times: number
  readonly base64: string
}

/** A flood ends if no datagram has come back for this long. */
const silenceMs = 500

const answer = (id: number, result: unknown) => process.stdout.write(`${JSON.stringify({ id, result })}\n`)

/** Texts of received datagrams, from any sender. */
const heard = new Set<string>()

/** Listens on TCP, and returns the number of received bytes to a peer that has sent everything; echoes on UDP. */
function listen(id: number, port: number): void {
  const server = createServer({ allowHalfOpen: true }, socket => {
    let got = 0
    socket.on('data', data => (got += data.length)).on('error', () => undefined)
    socket.on('end', () => socket.end(`got ${got}`))
  })
  const udp = createSocket({ type: 'udp6' })
  udp.on('message', (message, from) => {
    heard.add(message.toString())
    udp.send(message, from.port, from.address)
  })
  server.listen(port, '::', () => udp.bind(port, '::', () => answer(id, true)))
}

function tcp(id: number, request: Extract<Request, { verb: 'tcp' | 'udp' }>): void {
  const { host, port, from, limitMs } = request
  const socket = connect({ host, port, ...(from ? { localAddress: from } : {}) })
  const timer = setTimeout(() => socket.destroy(), limitMs)
  let text = ''
  socket.on('connect', () => socket.end('hello')).on('data', data => (text += data))
  socket.on('error', () => undefined)
  socket.on('close', () => {
    clearTimeout(timer)
    answer(id, text === 'got 5')
  })
}

function udp(id: number, { host, port, from, text, limitMs }: Extract<Request, { verb: 'tcp' | 'udp' }>): void {
  const socket = createSocket({ type: host.includes(':') ? 'udp6' : 'udp4' })
  const end = (reached: boolean) => {
    clearTimeout(timer)
    socket.close()
    answer(id, reached)
  }
  const timer = setTimeout(() => end(false), limitMs)
  socket.on('message', () => end(true)).on('error', () => undefined)
  socket.bind(0, from, () => socket.send(text ?? 'hello', port, host, () => undefined))
}

/** Sends all datagrams at once, and reports how many came back. */
function flood(id: number, { host, port, sockets, times, base64 }: Flood): void {
  const message = Buffer.from(base64, 'base64')
  let answers = 0
  const all = Array.from({ length: sockets }, () => createSocket(host.includes(':') ? 'udp6' : 'udp4'))
  const end = () => {
    for (const socket of all) socket.close()
    answer(id, answers)
  }
  const silence = setTimeout(end, silenceMs)
  for (const socket of all) {
    socket
      .on('error', () => undefined)
      .on('message', () => {
        answers += 1
        silence.refresh()
      })
    for (let n = 0; n < times; n++) socket.send(message, port, host, () => void silence.refresh())
  }
}

function stream(id: number, { host, port, bytes }: Extract<Request, { verb: 'stream' }>): void {
  const socket = connect({ host, port })
  let text = ''
  socket.on('connect', () => socket.end(Buffer.alloc(bytes, 'x'))).on('data', data => (text += data))
  socket.on('error', error => (text = error.message)).on('close', () => answer(id, text))
}

createInterface({ input: process.stdin })
  .on('line', line => {
    const request: Request = JSON.parse(line)
    if (request.verb === 'listen') listen(request.id, request.port)
    else if (request.verb === 'heard') answer(request.id, heard.has(request.text))
    else if (request.verb === 'stream') stream(request.id, request)
    else if (request.verb === 'flood') flood(request.id, request)
    else if (request.verb === 'tcp') tcp(request.id, request)
    else udp(request.id, request)
  })
  .on('close', () => process.exit())
