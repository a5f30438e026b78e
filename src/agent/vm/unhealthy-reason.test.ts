import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcp } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { unhealthyReason } from './unhealthy-reason.ts'

const never = new AbortController().signal
const at = (port: number) => ({ to: { host: '127.0.0.1', port }, from: undefined })

async function listening(server: ReturnType<typeof createTcp>): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

const app = (status: number) =>
  listening(createServer((_, response) => void response.writeHead(status, { connection: 'close' }).end()))

test('the reason for an unhealthy app names the wrong port on which the app listens', async () => {
  const port = await app(200)
  expect(await unhealthyReason(at(1), '/', never, [1, port])).toBe(
    `nothing listens on port 1, but the app listens on ${port}. Let it listen on $PORT, or set its port to ${port}`,
  )
})

test('the reason for an app that listens on no port names the address and port to listen on', async () =>
  expect(await unhealthyReason(at(1), null, never, [2])).toBe(
    'nothing listens on port 1. The app must listen on $PORT at 0.0.0.0, not only at 127.0.0.1',
  ))

test('the reason for a failed health check names its HTTP status and the setting of its path', async () => {
  expect(await unhealthyReason(at(await app(404)), '/up', never)).toBe(
    'GET /up answers 404. Set a health check path that answers 200 (health.path)',
  )
  expect(await unhealthyReason(at(await app(204)), '/up', never)).toBe('GET /up answers 204')
})

test('the reason says that an app accepts connections but does not respond, even if the app closes them', async () => {
  const port = await listening(createTcp(socket => void socket.destroy()))
  expect(await unhealthyReason(at(port), '/', never)).toBe(
    `it accepts connections on port ${port}, but does not answer GET /`,
  )
  expect(await unhealthyReason(at(port), null, never)).toBe(`port ${port} has just been opened`)
})
