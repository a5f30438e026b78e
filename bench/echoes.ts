/**
 * Measures the time until a byte typed in a VM session is echoed, compared with the time over a TCP connection to the
 * same guest.
 */
import { once } from 'node:events'
import { connect, type TcpNetConnectOpts } from 'node:net'
import { connectSession } from '../src/client/index.ts'
import type { BenchCloud } from './cloud.ts'

/** Number of bytes per round. Each byte is sent after the echo of the previous one has arrived. */
const eachRound = 50

export interface EchoPlace {
  readonly cloud: BenchCloud
  readonly jobId: string
  readonly token: string
}

/** Returns the milliseconds until a program in a terminal has echoed each byte. */
export async function sessionEchoes({ cloud, jobId, token }: EchoPlace): Promise<number[]> {
  const place = { app_name: 'bytes', job_id: jobId }
  const body = { command: ['cat'], tty: { rows: 24, columns: 80 } }
  const { id } = await cloud.client.openVmSession({ ...place, body })
  let arrived = Promise.withResolvers<void>()
  const session = connectSession({
    baseUrl: cloud.apiUrl,
    path: `/v1/apps/bytes/deployments/${jobId}/sessions/${id}/attach`,
    token: () => token,
    state: async () => undefined,
    onOutput: () => arrived.resolve(),
  })
  const echo = async () => {
    arrived = Promise.withResolvers()
    await session.write(Buffer.from('x'))
    await arrived.promise
  }
  try {
    return await timesOf(echo)
  } finally {
    session.detach()
    await cloud.client.closeVmSession({ ...place, session_id: id })
  }
}

/** Returns the milliseconds until each byte is echoed over the TCP connection. */
export async function bareEchoes(to: TcpNetConnectOpts): Promise<number[]> {
  const socket = connect({ ...to, noDelay: true })
  socket.write(Buffer.from([255]))
  const echo = async () => {
    socket.write('x')
    await once(socket, 'data')
  }
  try {
    return await timesOf(echo)
  } finally {
    socket.destroy()
  }
}

async function timesOf(echo: () => Promise<void>): Promise<number[]> {
  const times: number[] = []
  await echo()
  for (let n = 0; n < eachRound; n++) {
    const beganMs = performance.now()
    await echo()
    times.push(performance.now() - beganMs)
  }
  return times
}
