/**
 * The proof of work that a text captcha requires (docs/identity.md). Computed with Web Crypto: needs https or
 * localhost.
 */
export interface CaptchaWork {
  readonly iterations: number
  readonly bits: number
}

export async function workFor(captchaId: string, { iterations, bits }: CaptchaWork): Promise<string> {
  const text = new TextEncoder()
  const salt = text.encode('mote-captcha')
  for (let proof = 0; ; proof++) {
    const key = await crypto.subtle.importKey('raw', text.encode(`${captchaId}:${proof}`), 'PBKDF2', false, [
      'deriveBits',
    ])
    const derived = await crypto.subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt, iterations }, key, 256)
    const [first = 0, second = 0] = new Uint8Array(derived)
    if (Math.clz32((first << 24) | (second << 16)) >= bits) return String(proof)
  }
}
