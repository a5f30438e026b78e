/** `occupier.ts <port>` runs in the network of a test system and listens on the port until its standard input ends. */
import { createServer } from 'node:net'

const server = createServer(socket => socket.destroy()).listen(Number(process.argv[2]), '127.0.0.1', () => {
  process.stdout.write('listening\n')
})
process.stdin.resume().on('end', () => server.close())
