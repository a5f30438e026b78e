/** Continuous load: a loop for each kind of request, which sends requests through all gateways in turn. */
import { createHash } from 'node:crypto'
import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'

/** CGI scripts of the test image (`writeSampleImage`) that respond to the requests of the loops. */
export const loopScripts = {
  'small.cgi': '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\nsmall\\n"\n',
  'upload.cgi': '#!/bin/sh\nprintf "Content-Type: text/plain\\r\\n\\r\\n"\nmd5sum\n',
  'slow.cgi': '#!/bin/sh\nsleep 0.3\nprintf "Content-Type: text/plain\\r\\n\\r\\nslow\\n"\n',
} as const

const upload = Buffer.alloc(2 ** 20, 'mote')
const kinds = [
  { path: '/cgi-bin/small.cgi', body: undefined, answer: 'small\n' },
  { path: '/cgi-bin/upload.cgi', body: upload, answer: `${createHash('md5').update(upload).digest('hex')}  -\n` },
  { path: '/cgi-bin/slow.cgi', body: undefined, answer: 'slow\n' },
] as const

export interface LoopFigures {
  readonly asked: number
  /** Requests with an unexpected response or a broken connection. */
  readonly faults: readonly string[]
  readonly longestMs: number
}

export interface RequestLoops {
  /** Stops the loops and waits for the requests in flight. */
  end(): Promise<LoopFigures>
}

/**
 * Starts one loop for each kind of request. Each loop sends one request at a time, to the next gateway each time.
 * @param ports TCP ports of the gateways on 127.0.0.1
 * @param host value of the `Host` header
 */
export function startRequestLoops(ports: readonly number[], host: string): RequestLoops {
  const agent = new Agent({ keepAlive: true })
  const faults: string[] = []
  let ended = false
  let asked = 0
  let longestMs = 0
  const ask = ({ path, body }: (typeof kinds)[number], port: number) =>
    new Promise<string>((resolve, reject) => {
      const headers = { host, ...(body ? { 'content-length': body.length } : {}) }
      request({ agent, port, host: '127.0.0.1', path, method: body ? 'POST' : 'GET', headers }, res => {
        text(res).then(said => resolve(`${res.statusCode} ${said}`), reject)
      })
        .on('error', reject)
        .end(body)
    })
  const loop = async (kind: (typeof kinds)[number]) => {
    for (let n = 0; !ended; n++) {
      const beganMs = performance.now()
      const found = await ask(kind, ports[n % ports.length] ?? 0).catch((cause: unknown) => String(cause))
      const tookMs = performance.now() - beganMs
      longestMs = Math.max(longestMs, tookMs)
      asked++
      if (found !== `200 ${kind.answer}`) faults.push(`${kind.path} after ${tookMs.toFixed(0)} ms: ${found}`)
    }
  }
  const loops = kinds.map(loop)
  return {
    async end() {
      ended = true
      await Promise.all(loops)
      agent.destroy()
      return { asked, faults, longestMs }
    },
  }
}
