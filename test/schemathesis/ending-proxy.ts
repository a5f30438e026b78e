/** A proxy that ends event streams after 200 ms, because schemathesis waits for the end of each response. */
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

const streamMs = 200

export interface EndingProxy extends AsyncDisposable {
  readonly url: string
  /** Number of responses, by HTTP status. */
  readonly statuses: ReadonlyMap<number, number>
}

export async function endingProxy(port: number): Promise<EndingProxy> {
  const statuses = new Map<number, number>()
  const server: Server = createServer((incoming, outgoing) => {
    const { method, url, rawHeaders } = incoming
    const onward = request(
      { port, host: '127.0.0.1', method, path: url, headers: rawHeaders, setHost: false },
      answer => {
        const { statusCode = 502 } = answer
        statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
        outgoing.writeHead(statusCode, answer.rawHeaders)
        answer.on('error', () => outgoing.destroy())
        if (!answer.headers['content-type']?.startsWith('text/event-stream')) return void answer.pipe(outgoing)
        answer.pipe(outgoing, { end: false })
        setTimeout(() => {
          answer.unpipe(outgoing)
          onward.destroy()
          outgoing.end()
        }, streamMs)
      },
    )
    onward.on('error', () => outgoing.destroy())
    incoming.pipe(onward)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    statuses,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
