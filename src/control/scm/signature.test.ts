/** How git hosts sign, and that nobody else can. */
import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { systemClock } from '../../lib/clock.ts'
import { githubHost } from './provider.ts'
import { describeDelivery, isSigned } from './signature.ts'
import { webhookSecret } from './testing.ts'

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

describe('signatures', () => {
  /** docs.github.com, "Testing the webhook payload validation". */
  const official = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'

  it("GitHub's own example is accepted by the library and by the webhook of an app", async () => {
    const raw = Buffer.from('Hello, World!')
    expect(await githubLike.isSigned(raw, official)).toBe(true)
    expect(await githubLike.isSigned(raw, official.replace('7571', '7572'))).toBe(false)
    expect(isSigned(webhookSecret, raw, { 'x-hub-signature-256': official })).toBe(true)
    expect(
      isSigned('', raw, { 'x-hub-signature-256': `sha256=${createHmac('sha256', '').update(raw).digest('hex')}` }),
    ).toBe(false)
  })

  test.each([
    ['GitHub', (hex: string) => ({ 'x-hub-signature-256': `sha256=${hex}`, 'x-github-event': 'push' }), 'push'],
    ['Gitea', (hex: string) => ({ 'x-gitea-signature': hex, 'x-gitea-event': 'push' }), 'push'],
    ['Forgejo', (hex: string) => ({ 'x-forgejo-signature': hex, 'x-forgejo-event': 'push' }), 'push'],
    ['GitLab', () => ({ 'x-gitlab-token': 'secret', 'x-gitlab-event': 'Push Hook' }), 'Push Hook'],
  ] as const)('%s', (_, headersOf, event) => {
    const raw = Buffer.from('{"a":1}')
    const sign = (secret: string) => headersOf(createHmac('sha256', secret).update(raw).digest('hex'))
    expect(isSigned('secret', raw, sign('secret'))).toBe(true)
    expect(isSigned('other', raw, sign('secret'))).toBe(false)
    expect(isSigned('secret', Buffer.from('{"a":2}'), sign('secret'))).toBe('x-gitlab-token' in sign('secret'))
    expect(isSigned('secret', raw, {})).toBe(false)
    expect(describeDelivery(raw, sign('secret'))).toMatchObject({ event, id: expect.stringMatching(/^[0-9a-f]{64}$/) })
  })

  it('of any bytes only those of the secret pass', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 200 }),
        fc.string({ minLength: 1 }),
        fc.string(),
        (bytes, secret, guess) => {
          const raw = Buffer.from(bytes)
          const header = `sha256=${createHmac('sha256', guess).update(raw).digest('hex')}`
          expect(isSigned(secret, raw, { 'x-hub-signature-256': header })).toBe(secret === guess)
        },
      ),
    )
  })
})
