/** Tests the verification of webhook signatures of git hosts, also of forged ones. */
import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { systemClock } from '../../lib/clock.ts'
import { githubHost } from './provider.ts'
import { describeDelivery, type Headers, isSigned, proofOf } from './signature.ts'
import { webhookSecret } from '../../../test/support/control/scm.ts'

const githubLike = githubHost(
  {
    appId: '1',
    slug: 'x',
    privateKey: 'unused',
    webhookSecret,
    clientId: 'x',
    clientSecret: 'x',
    webUrl: 'https://github.com',
    apiUrl: 'https://api.github.com',
  },
  systemClock,
)

const signs = async (secret: string, raw: Buffer, headers: Headers): Promise<boolean> => {
  const proof = proofOf(headers)
  return proof !== undefined && (await isSigned(secret, raw, proof))
}

describe('webhook signatures', () => {
  /** Example from docs.github.com, "Testing the webhook payload validation". */
  const official = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'

  it("the example of GitHub's documentation is accepted by GitHub's library and by the webhooks of apps", async () => {
    const raw = Buffer.from('Hello, World!')
    expect(await githubLike.isSigned(raw, official)).toBe(true)
    expect(await githubLike.isSigned(raw, official.replace('7571', '7572'))).toBe(false)
    expect(await signs(webhookSecret, raw, { 'x-hub-signature-256': official })).toBe(true)
    expect(
      await signs('', raw, { 'x-hub-signature-256': `sha256=${createHmac('sha256', '').update(raw).digest('hex')}` }),
    ).toBe(false)
  })

  test.each([
    ['GitHub', (hex: string) => ({ 'x-hub-signature-256': `sha256=${hex}`, 'x-github-event': 'push' }), 'push'],
    ['Gitea', (hex: string) => ({ 'x-gitea-signature': hex, 'x-gitea-event': 'push' }), 'push'],
    ['Forgejo', (hex: string) => ({ 'x-forgejo-signature': hex, 'x-forgejo-event': 'push' }), 'push'],
    ['GitLab', () => ({ 'x-gitlab-token': 'secret', 'x-gitlab-event': 'Push Hook' }), 'Push Hook'],
  ] as const)(
    'a delivery signed in the way of %s is accepted only with the right secret',
    async (_, headersOf, event) => {
      const raw = Buffer.from('{"a":1}')
      const sign = (secret: string) => headersOf(createHmac('sha256', secret).update(raw).digest('hex'))
      expect(await signs('secret', raw, sign('secret'))).toBe(true)
      expect(await signs('other', raw, sign('secret'))).toBe(false)
      expect(await signs('secret', Buffer.from('{"a":2}'), sign('secret'))).toBe('x-gitlab-token' in sign('secret'))
      expect(await signs('secret', raw, {})).toBe(false)
      expect(describeDelivery(raw, sign('secret'))).toMatchObject({
        event,
        id: expect.stringMatching(/^[0-9a-f]{64}$/),
      })
    },
  )

  it('a signature of any body is accepted only with the right secret', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 200 }),
        fc.string({ minLength: 1 }),
        fc.string(),
        async (bytes, secret, guess) => {
          const raw = Buffer.from(bytes)
          const header = `sha256=${createHmac('sha256', guess).update(raw).digest('hex')}`
          expect(await signs(secret, raw, { 'x-hub-signature-256': header })).toBe(secret === guess)
        },
      ),
    )
  })

  const hex = 'a'.repeat(64)
  test.each<[string, Headers]>([
    ['no signature header', {}],
    ['an empty signature header', { 'x-hub-signature-256': '' }],
    ['two signature headers', { 'x-hub-signature-256': [`sha256=${hex}`, `sha256=${hex}`] }],
    ['another algorithm', { 'x-hub-signature-256': `sha1=${hex.slice(0, 40)}` }],
    ['no algorithm', { 'x-hub-signature-256': hex }],
    ['too short a digest', { 'x-hub-signature-256': `sha256=${hex.slice(1)}` }],
    ['too long a digest', { 'x-hub-signature-256': `sha256=${hex}a` }],
    ['a digest that is not hexadecimal', { 'x-gitea-signature': 'z'.repeat(64) }],
    ['a malformed header and a valid second one', { 'x-hub-signature-256': 'x', 'x-gitea-signature': hex }],
    ['an overlong secret', { 'x-gitlab-token': 'x'.repeat(1025) }],
  ])('a delivery with %s is refused without computing a hash', (_, headers) => expect(proofOf(headers)).toBeUndefined())
})
