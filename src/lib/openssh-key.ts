/**
 * Creates a key pair in OpenSSH's format (PROTOCOL.key of OpenSSH) in memory, so that the private key is never written
 * to a file on this host.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'

export interface KeyPair {
  /** The private key, unencrypted, in OpenSSH's PEM-like format. */
  readonly privateKey: string
  /** The public key, as a line of authorized_keys. */
  readonly publicKey: string
}

const kind = 'ssh-ed25519'

/** Creates an Ed25519 key pair. */
export function makeKeyPair(comment: string): KeyPair {
  const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const [seed, point] = [jwk.d, jwk.x].map(part => Buffer.from(part ?? '', 'base64url'))
  if (seed?.length !== 32 || point?.length !== 32) throw new Error('BUG: an ed25519 key has two halves of 32 bytes')
  const publicBlob = Buffer.concat([string(kind), string(point)])
  const check = randomBytes(4)
  const secret = [string(kind), string(point), string(Buffer.concat([seed, point])), string(comment)]
  const open = Buffer.concat([check, check, ...secret])
  // OpenSSH pads the key with the bytes 1, 2, 3 ... to the block size of the cipher "none", which is 8.
  const padding = Buffer.from(Array.from({ length: (8 - (open.length % 8)) % 8 }, (_, n) => n + 1))
  const body = Buffer.concat([
    ...[Buffer.from('openssh-key-v1\0'), string('none'), string('none'), string(''), number(1)],
    ...[string(publicBlob), string(Buffer.concat([open, padding]))],
  ])
  const lines = body.toString('base64').match(/.{1,70}/g) ?? []
  return {
    privateKey: ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n'),
    publicKey: `${kind} ${publicBlob.toString('base64')} ${comment}`,
  }
}

/** Encodes a string in SSH's wire format (RFC 4251, 5). */
function string(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([number(bytes.length), bytes])
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
