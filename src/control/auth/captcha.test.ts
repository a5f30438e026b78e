import { loadImage } from '@napi-rs/canvas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { answerInWords, proofFor } from '../../../test/support/captcha.ts'
import { type Identity, startIdentity, testPassword } from '../../../test/support/identity.ts'
import { captchaWork, isWorked, zeroBits } from './captcha-work.ts'
import { letterPicture, letters, pictureChallenge, wordChallenge } from './captcha.ts'

describe('captcha', () => {
  let api: Identity
  beforeAll(async () => {
    api = await startIdentity({ env: { MOTE_CAPTCHA: 'true' } })
  })
  afterAll(async () => api[Symbol.asyncDispose]())

  let count = 0
  const proofs = new Map<string, string>()
  const register = (captcha_id: string, captcha_answer: string, captcha_proof = proofs.get(captcha_id)) => {
    const email = `captcha-${++count}@example.com`
    return api.call('POST', '/v1/auth/register', {
      body: { email, password: testPassword, captcha_id, captcha_answer, captcha_proof },
    })
  }
  /** Answers a text captcha, as a user of a screen reader does. */
  async function solved(): Promise<{ id: string; answer: string }> {
    const { body } = await api.call('GET', '/v1/auth/captcha?format=text')
    const id = String(body['captcha_id'])
    proofs.set(id, proofFor(id, body['captcha_work']))
    return { id, answer: answerInWords(String(body['captcha_text'])) }
  }

  it('draws every letter, which proves that the font is loaded', async () => {
    for (const letter of letters) {
      const picture = await letterPicture(letter)
      const { data } = picture.getContext('2d').getImageData(0, 0, picture.width, picture.height)
      const opaque = data.filter((value, i) => i % 4 === 3 && value === 255).length
      // The smallest letter in the smallest size, `7` at 38 px, covers about 150 pixels.
      expect(opaque, letter).toBeGreaterThan(80)
    }
  })

  it('returns a different picture each time', async () => {
    const { body } = await api.call('GET', '/v1/auth/captcha')
    expect(body['captcha_image']).toMatch(/^data:image\/png;base64,/)
    const [a, b] = [await pictureChallenge(), await pictureChallenge()]
    expect(a.image).not.toBe(b.image)
    expect(a.answer).toMatch(/^[A-Z0-9]{6}$/)
    const image = await loadImage(Buffer.from(a.image.split(',')[1] ?? '', 'base64'))
    expect([image.width, image.height]).toEqual([240, 80])
  })

  it('offers a question in words as an alternative', () => {
    const { text, answer, image } = wordChallenge()
    expect(answer).toMatch(/^[A-Z]\d{1,2}$/)
    expect(decodeURIComponent(image)).toBe(`data:text/plain;charset=utf-8,${text}`)
  })

  it('requires a proof of work in addition to the answer of a text captcha', async () => {
    const { body } = await api.call('GET', '/v1/auth/captcha?format=text')
    expect(body['captcha_work']).toEqual({ iterations: 5000, bits: 8 })
    expect((await api.call('GET', '/v1/auth/captcha')).body['captcha_work']).toBeUndefined()
    const other = await solved()
    for (const proof of ['', 'x', proofs.get(other.id)]) {
      const { id, answer } = await solved()
      const right = proofs.get(id)
      // A random proof is valid with a probability of 1/256.
      if (await isWorked(id, proof ?? '', captchaWork.bits)) continue
      const reply = await register(id, answer, proof ?? '')
      expect([reply.status, reply.body['details']?.[0]?.field]).toEqual([400, 'captcha_proof'])
      // A text captcha, too, allows only one try.
      expect((await register(id, answer, right)).status).toBe(400)
    }
  })

  it('counts the leading zero bits of a proof of work', () => {
    expect(zeroBits(Uint8Array.of(0, 0x10))).toBe(11)
    expect(zeroBits(Uint8Array.of(0x80))).toBe(0)
    expect(zeroBits(Uint8Array.of(0, 0))).toBe(16)
  })

  it('accepts a correct answer once', async () => {
    const { id, answer } = await solved()
    expect((await register(id, ` ${answer.toLowerCase()} `)).status).toBe(200)
    expect((await register(id, answer)).status).toBe(400)
  })

  it('accepts only one of several concurrent correct answers', async () => {
    const { id, answer } = await solved()
    const replies = await Promise.all(Array.from({ length: 6 }, () => register(id, answer)))
    expect(replies.filter(reply => reply.status === 200)).toHaveLength(1)
  })

  it('is used up by a wrong answer', async () => {
    const { id, answer } = await solved()
    expect((await register(id, 'WRONG')).status).toBe(400)
    expect((await register(id, answer)).status).toBe(400)
  })

  it('is refused after five minutes, or with an unknown id', async () => {
    const { id, answer } = await solved()
    api.clock.advance(5 * 60_000 + 1)
    expect((await register(id, answer)).status).toBe(400)
    expect((await register('nonsense', answer)).status).toBe(400)
  })

  it('does not accept the answer of another captcha', async () => {
    const [a, b] = [await solved(), await solved()]
    if (a.answer === b.answer) return
    expect((await register(a.id, b.answer)).status).toBe(400)
  })
})
