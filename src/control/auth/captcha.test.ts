import { loadImage } from '@napi-rs/canvas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { answerInWords, proofFor } from '../../../test/support/captcha.ts'
import { type Identity, startIdentity, testPassword } from '../../../test/support/identity.ts'
import { zeroBits } from './captcha-work.ts'
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
  /** Answers a question in words, as a person with a screen reader would. */
  async function solved(): Promise<{ id: string; answer: string }> {
    const { body } = await api.call('GET', '/v1/auth/captcha?format=text')
    const id = String(body['captcha_id'])
    proofs.set(id, proofFor(id, body['captcha_work']))
    return { id, answer: answerInWords(String(body['captcha_text'])) }
  }

  it('draws every letter: a font that does not load draws nothing, and says nothing', async () => {
    for (const letter of letters) {
      const picture = await letterPicture(letter)
      const { data } = picture.getContext('2d').getImageData(0, 0, picture.width, picture.height)
      const opaque = data.filter((value, i) => i % 4 === 3 && value === 255).length
      // The smallest letter in the smallest size, `7` at 38 px, covers some 150 pixels.
      expect(opaque, letter).toBeGreaterThan(80)
    }
  })

  it('sends a picture, and never the same twice', async () => {
    const { body } = await api.call('GET', '/v1/auth/captcha')
    expect(body['captcha_image']).toMatch(/^data:image\/png;base64,/)
    const [a, b] = [await pictureChallenge(), await pictureChallenge()]
    expect(a.image).not.toBe(b.image)
    expect(a.answer).toMatch(/^[A-Z0-9]{6}$/)
    const image = await loadImage(Buffer.from(a.image.split(',')[1] ?? '', 'base64'))
    expect([image.width, image.height]).toEqual([240, 80])
  })

  it('asks in words for those who cannot see it', () => {
    const { text, answer, image } = wordChallenge()
    expect(answer).toMatch(/^[A-Z]\d{1,2}$/)
    expect(decodeURIComponent(image)).toBe(`data:text/plain;charset=utf-8,${text}`)
  })

  it('in words asks for work besides the answer, which a program that reads the question has to do as well', async () => {
    const { body } = await api.call('GET', '/v1/auth/captcha?format=text')
    expect(body['captcha_work']).toEqual({ iterations: 5000, bits: 8 })
    expect((await api.call('GET', '/v1/auth/captcha')).body['captcha_work']).toBeUndefined()
    const other = await solved()
    for (const proof of [null, '', 'x', proofs.get(other.id)]) {
      const { id, answer } = await solved()
      const right = proofs.get(id)
      const reply = await register(id, answer, proof === null ? '' : (proof ?? ''))
      if (proof === right) continue
      expect([reply.status, reply.body['details']?.[0]?.field]).toEqual([400, 'captcha_proof'])
      // One try, here too.
      expect((await register(id, answer, right)).status).toBe(400)
    }
  })

  it('counts zero bits', () => {
    expect(zeroBits(Uint8Array.of(0, 0x10))).toBe(11)
    expect(zeroBits(Uint8Array.of(0x80))).toBe(0)
    expect(zeroBits(Uint8Array.of(0, 0))).toBe(16)
  })

  it('accepts a right answer once', async () => {
    const { id, answer } = await solved()
    expect((await register(id, ` ${answer.toLowerCase()} `)).status).toBe(200)
    expect((await register(id, answer)).status).toBe(400)
  })

  it('lets one of many win when the same answer comes at once', async () => {
    const { id, answer } = await solved()
    const replies = await Promise.all(Array.from({ length: 6 }, () => register(id, answer)))
    expect(replies.filter(reply => reply.status === 200)).toHaveLength(1)
  })

  it('is used up by a wrong answer', async () => {
    const { id, answer } = await solved()
    expect((await register(id, 'WRONG')).status).toBe(400)
    expect((await register(id, answer)).status).toBe(400)
  })

  it('is worth nothing after five minutes, or when it is none', async () => {
    const { id, answer } = await solved()
    api.clock.advance(5 * 60_000 + 1)
    expect((await register(id, answer)).status).toBe(400)
    expect((await register('nonsense', answer)).status).toBe(400)
  })

  it('is no other captcha', async () => {
    const [a, b] = [await solved(), await solved()]
    if (a.answer === b.answer) return
    expect((await register(a.id, b.answer)).status).toBe(400)
  })
})
