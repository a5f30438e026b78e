/**
 * `asker.ts <gateway port> <host name>` runs in the network of a test system. It sends a request to the app through the
 * gateway, and exits with 0 if the response is a greeting.
 */
import { request } from 'node:http'
import { text } from 'node:stream/consumers'

const [port = '', host = ''] = process.argv.slice(2)

const answer = await new Promise<{ readonly status: number; readonly body: string }>((resolve, reject) => {
  request({ host: '127.0.0.1', port, path: '/', headers: { host } }, response => {
    text(response).then(body => resolve({ status: response.statusCode ?? 0, body }), reject)
  })
    .on('error', reject)
    .end()
})
if (answer.status !== 200 || !answer.body.startsWith('Hello from'))
  throw new Error(`${host} answered ${answer.status}: ${answer.body.slice(0, 200)}`)
