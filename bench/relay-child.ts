/** Forwards bytes between its clients and a TCP port with as little work as Node.js allows. Prints its own port. */
import { connect, createServer } from 'node:net'

const [host = '', port = '', localAddress = ''] = process.argv.slice(2)
const server = createServer({ allowHalfOpen: true }, client => {
  const target = connect({ host, port: Number(port), localAddress, allowHalfOpen: true })
  for (const [from, to] of [
    [client, target],
    [target, client],
  ] as const)
    from.on('error', () => to.destroy()).pipe(to)
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address && typeof address === 'object') console.log(address.port)
})
