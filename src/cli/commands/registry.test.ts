import { expect, it } from 'vitest'
import { refusal } from './registry.ts'

/** Docker's message for a registry without TLS on the same computer. Docker tries HTTPS first there. */
const triedHttps = 'Get "https://localhost:7050/v2/": http: server gave HTTP response to HTTPS client'

it.each([
  [
    `${triedHttps} | Get "http://localhost:7050/v2/": unauthorized: authentication required`,
    'refuses this access token',
  ],
  [
    'logging into "localhost:7050": invalid username/password: unauthorized: authentication required',
    'mote tokens create',
  ],
  [triedHttps, 'has no TLS'],
])('adds advice to the Docker error "%s"', (message, says) => {
  expect(String(refusal('localhost:7050', new Error(message)))).toContain(says)
})

it('does not change a Docker error that has another cause', () => {
  const cause = new Error('permission denied while trying to connect to the Docker daemon')
  expect(refusal('localhost:7050', cause)).toBe(cause)
})
