/**
 * Makes certificates of the keys that sign registry tokens: the registry program (distribution) reads the keys that it
 * trusts from certificates.
 */
import { createPublicKey, type KeyObject, sign } from 'node:crypto'

const tags = {
  integer: 0x02,
  bits: 0x03,
  bytes: 0x04,
  oid: 0x06,
  text: 0x0c,
  time: 0x18,
  sequence: 0x30,
  set: 0x31,
  version: 0xa0,
  extensions: 0xa3,
} as const

/** Encodes a value in DER (X.690): tag, length, content. */
function der(tag: keyof typeof tags, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const size = content.length
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.from([tags[tag], ...length]), content])
}

const oid = (hex: string) => der('oid', Buffer.from(hex, 'hex'))
const bits = (content: Buffer) => der('bits', Buffer.of(0), content)
const ecdsaWithSha256 = der('sequence', oid('2a8648ce3d040302'))
const commonName = '550403'
const basicConstraints = '551d13'
const isCa = Buffer.from('30030101ff', 'hex')
const yes = Buffer.from('0101ff', 'hex')

const nameOf = (text: string) =>
  der('sequence', der('set', der('sequence', oid(commonName), der('text', Buffer.from(text)))))

/**
 * Returns an X.509 certificate (RFC 5280) of a key, signed with the same key, in DER. The certificate never expires,
 * because the key changes only with the installation's secret.
 * @param key a private key on the curve P-256
 */
export function certificateOf(subject: string, issuer: string, key: KeyObject): Buffer {
  const time = (text: string) => der('time', Buffer.from(text))
  const facts = der(
    'sequence',
    der('version', der('integer', Buffer.of(2))),
    der('integer', Buffer.of(1)),
    ecdsaWithSha256,
    nameOf(issuer),
    der('sequence', time('20200101000000Z'), time('99991231235959Z')),
    nameOf(subject),
    createPublicKey(key).export({ format: 'der', type: 'spki' }),
    der('extensions', der('sequence', der('sequence', oid(basicConstraints), yes, der('bytes', isCa)))),
  )
  return der('sequence', facts, ecdsaWithSha256, bits(sign('sha256', facts, key)))
}
