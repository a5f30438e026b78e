import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'

/** A WireGuard key pair (Curve25519) in base64, as WireGuard's tools write it. */
export interface MeshKey {
  readonly privateKey: string
  readonly publicKey: string
}

/** The DER bytes before the 32 bytes of a raw private key in PKCS #8 (RFC 8410 7). */
const pkcs8Head = Buffer.from('302e020100300506032b656e04220420', 'hex')
const rawBytes = 32

/** Reads the host's key pair, or creates one. The private key is only written to this file (0600) and to the device. */
export async function openKey(file: string): Promise<MeshKey> {
  const text = (await readIfExists(file))?.trim()
  return text ? keyOf(text) : newKey(file)
}

/** Creates a new key pair for the host and stores it in the file. */
export async function newKey(file: string): Promise<MeshKey> {
  const { privateKey } = generateKeyPairSync('x25519')
  const raw = privateKey.export({ type: 'pkcs8', format: 'der' }).subarray(-rawBytes).toString('base64')
  await writeFileAtomic(file, `${raw}\n`, { mode: 0o600 })
  return keyOf(raw)
}

/** Returns the age of the key in the file. */
export async function keyAgeMs(file: string, nowMs: number): Promise<number> {
  return nowMs - (await stat(file)).mtimeMs
}

/** Derives the public key from the private key. @throws Error when the text is no key; the message omits the text */
function keyOf(privateKey: string): MeshKey {
  const raw = Buffer.from(privateKey, 'base64')
  if (raw.length !== rawBytes)
    throw new Error('the mesh key file does not hold a key: remove it, and a new key is created')
  const key = createPrivateKey({ key: Buffer.concat([pkcs8Head, raw]), format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' }).subarray(-rawBytes).toString('base64')
  return { privateKey, publicKey }
}
