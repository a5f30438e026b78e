/** Determines why an app does not pass its health check, and what to change. */
import { request } from 'node:http'
import { connect } from 'node:net'
import type { ProbePath } from './health.ts'

/** Ports on which web frameworks listen by default. */
const usualPorts = [80, 3000, 3001, 4000, 4173, 5000, 5173, 8000, 8080, 8081, 8888, 9000]
const connectMs = 500
const answerMs = 5_000

/**
 * Returns the reason as a line for the VM's log.
 * @param path HTTP path of the health check; null if the app only has to accept connections
 * @param ports other ports to try if nothing listens on the app's port
 */
export async function unhealthyReason(
  way: ProbePath,
  path: string | null,
  signal: AbortSignal,
  ports: readonly number[] = usualPorts,
): Promise<string> {
  const { port } = way.to
  if (await accepts(way, port)) return path === null ? `port ${port} has just been opened` : statusOf(way, path, signal)
  const others = ports.filter(one => one !== port)
  const isOpen = await Promise.all(others.map(one => accepts(way, one)))
  const open = others.filter((_, at) => isOpen[at])
  if (open.length > 0)
    return `nothing listens on port ${port}, but the app listens on ${open.join(', ')}. Let it listen on $PORT, or set its port to ${open[0]}`
  return `nothing listens on port ${port}. The app must listen on $PORT at 0.0.0.0, not only at 127.0.0.1`
}

const accepts = ({ to, from }: ProbePath, port: number) =>
  new Promise<boolean>(resolve => {
    const source = from === undefined ? {} : { localAddress: from }
    const socket = connect({ host: to.host, port, timeout: connectMs, ...source })
    const end = (isOpen: boolean) => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once('connect', () => end(true))
    socket.once('timeout', () => end(false))
    socket.once('error', () => end(false))
  })

const statusOf = ({ to, from }: ProbePath, path: string, signal: AbortSignal) =>
  new Promise<string>(resolve => {
    const silent = `it accepts connections on port ${to.port}, but does not answer GET ${path}`
    const asked = request({
      host: to.host,
      port: to.port,
      ...(from === undefined ? {} : { localAddress: from }),
      path,
      agent: false,
      maxHeaderSize: 16 << 10,
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
      headers: { 'user-agent': 'mote-health' },
    })
    asked.on('information', () => asked.destroy())
    asked.on('error', () => resolve(silent))
    asked.on('close', () => resolve(silent))
    asked.on('response', ({ statusCode = 0 }) => {
      asked.destroy()
      const isHealthy = statusCode >= 200 && statusCode < 400
      resolve(
        `GET ${path} answers ${statusCode}${isHealthy ? '' : '. Set a health check path that answers 200 (health.path)'}`,
      )
    })
    asked.end()
  })
