/** An image registry on loopback that requires a login. */
import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../free-port.ts'
import { until } from '../wait.ts'

/**
 * Starts Debian's docker-registry. With its access control "silly", it accepts any token, and refers clients to the
 * token server, which issues one only for the password.
 */
export async function startRegistry(dir: string, realm: string) {
  const port = await freePort()
  const host = `127.0.0.1:${port}`
  const data = join(dir, 'registry')
  await mkdir(data)
  const config = join(dir, 'registry.yml')
  await writeFile(
    config,
    `version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: ${data}}}\nhttp: {addr: "${host}"}\n` +
      `auth: {silly: {realm: "${realm}", service: test}}\n`,
  )
  const child = spawn('docker-registry', ['serve', config], { stdio: 'ignore' })
  const exited = new Promise<void>(resolve => child.once('exit', () => resolve()))
  await until(() => accepts(port), { what: 'the registry' })
  return {
    host,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** Starts a token server, which issues a token to the user `user` with the password `secret`. */
export async function tokenServer() {
  const expected = `Basic ${Buffer.from('user:secret').toString('base64')}`
  const server = createServer((request, response) => {
    const allowed = request.headers.authorization === expected
    response.writeHead(allowed ? 200 : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify(allowed ? { token: 'yes' } : { details: 'unauthorized: authentication required' }))
  })
  const port = await freePort()
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${port}/token`,
    [Symbol.asyncDispose]: () => {
      server.closeAllConnections()
      return new Promise<void>(resolve => server.close(() => resolve()))
    },
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => resolve(true))
    socket.on('error', () => resolve(false)).on('connect', () => socket.destroy())
  })
}
