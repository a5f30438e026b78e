/** Finds ports for programs whose port must be known before they start, so that they cannot listen on port 0. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Range of ports. It is below that of outgoing connections (from 32768 on Linux), so that no connection of another test
 * takes a port before the program listens.
 */
const range = { first: 22_000, last: 32_000 }
const tries = 50

/** Returns a TCP port on 127.0.0.1 on which nothing listens. */
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
