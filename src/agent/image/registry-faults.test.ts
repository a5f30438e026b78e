import { expect, it } from 'vitest'
import { CommandError } from '../../lib/exec.ts'
import { isFinal } from '../base/step-error.ts'
import { parseImage } from './reference.ts'
import { ImageError } from '../base/image-error.ts'
import { manifestDigest } from './registry.ts'
import { pullFault } from './registry-faults.ts'

const reference = parseImage('registry.example.com/team/shop:v7')
if (reference.kind !== 'registry') throw new Error('BUG: it names a registry')
const program = '/var/cache/mote/oneway-6da4/oneway'
const stderr = (rest: string) =>
  `time="2026-11-22T12:00:00Z" level=fatal msg="Error parsing image name \\"docker://registry.example.com/team/shop:v7\\": ${rest}"`

// Messages of skopeo 1.18 for each failure, and a part of the sentence that users get.
const said = {
  'no such host': [
    'pinging container registry: Get \\"https://registry.example.com/v2/\\": dial tcp: lookup registry.example.com on 10.0.0.2:53: no such host',
    'there is no registry registry.example.com',
  ],
  'no such repository': [
    'reading manifest v7 in registry.example.com/team/shop: name unknown: repository not known',
    'has no registry.example.com/team/shop:v7',
  ],
  'no such tag': [
    'reading manifest v7 in registry.example.com/team/shop: manifest unknown',
    'has no registry.example.com/team/shop:v7',
  ],
  'not a registry': [
    'pinging container registry registry.example.com: StatusCode: 404, <!doctype html>... Not Found',
    'has no',
  ],
  denied: [
    'reading manifest v7: errors: denied: requested access to the resource is denied unauthorized: authentication required',
    'refuses registry.example.com/team/shop:v7',
  ],
  'wrong password': ['unable to retrieve auth token: invalid username/password: unauthorized', 'refuses'],
  forbidden: ['received unexpected HTTP status: 403 Forbidden', 'refuses'],
  certificate: ['tls: failed to verify certificate: x509: certificate signed by unknown authority', 'certificate'],
  'plain HTTP': ['http: server gave HTTP response to HTTPS client', 'does not speak HTTPS'],
} as const

it.each(Object.entries(said))(
  'a permanent pull failure is reported without a retry, in one sentence: %s',
  (_, [text, sentence]) => {
    const fault = pullFault(reference, new CommandError(program, 1, stderr(text)))
    expect(isFinal(fault), fault.message).toBe(true)
    expect(fault.message).toContain(sentence)
    expect(fault.message).not.toMatch(/oneway|level=|\/var|skopeo/)
  },
)

it.each([
  'connection refused',
  'i/o timeout',
  'received unexpected HTTP status: 502 Bad Gateway',
  'toomanyrequests: slow down',
])('a temporary pull failure is retried: %s', text => {
  const fault = pullFault(reference, new CommandError(program, 1, stderr(text)))
  expect(isFinal(fault)).toBe(false)
  expect(fault.message).not.toMatch(/oneway|level=|\/var/)
})

it('a registry whose hostname does not exist is reported without running skopeo', async () => {
  const lookup = async () => {
    throw Object.assign(new Error('getaddrinfo ENOTFOUND registry.example.com'), { code: 'ENOTFOUND' })
  }
  const asked = manifestDigest(reference, [], AbortSignal.timeout(5_000), { lookup })
  await expect(asked).rejects.toThrow(ImageError)
  await expect(asked).rejects.toThrow('there is no registry registry.example.com')
})
