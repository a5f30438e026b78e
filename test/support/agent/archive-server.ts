/** An HTTP server for archives: serves files from memory, and records the requests. */
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'

export interface ArchiveServer extends AsyncDisposable {
  readonly url: string
  readonly files: Map<string, string | Buffer>
  /** Requested paths, in order. */
  readonly requests: string[]
  /** If true, only the first half of each file is ever sent. */
  stall: boolean
}

export async function archiveServer(): Promise<ArchiveServer> {
  const files = new Map<string, string | Buffer>()
  const requests: string[] = []
  const server = createServer((request, answer) => {
    const path = request.url ?? ''
    requests.push(path)
    const file = files.get(path)
    if (file === undefined) return void answer.writeHead(404).end()
    const bytes = Buffer.from(file)
    answer.writeHead(200, { 'content-length': bytes.length })
    if (self.stall) answer.write(bytes.subarray(0, bytes.length / 2))
    else answer.end(bytes)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const self: ArchiveServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    files,
    requests,
    stall: false,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise<void>(resolve => void server.close(() => resolve()))
    },
  }
  return self
}
