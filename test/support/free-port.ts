/** Ports for programs that cannot listen on port 0, because their port must be known before they start. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports of outgoing connections (32768 on Linux): no client of another test takes one in the meantime. */
const range = { first: 22_000, last: 32_000 }
const tries = 50

/** Returns a TCP port on 127.0.0.1 that was free a moment ago, and that no outgoing connection uses. */
export async function freePort(): Promise<number> {
  for (let n = 0; n < tries; n++) {
    const port = randomInt(range.first, range.last)
    const server = createServer()
    const listens = once(server, 'listening').then(
      () => true,
      () => false,
    )
    server.listen(port, '127.0.0.1')
    if (!(await listens)) continue
    server.close()
    await once(server, 'close')
    return port
  }
  throw new Error(`no free port between ${range.first} and ${range.last}`)
}
