import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'

/** WireGuard keys (Curve25519), base64 as its tools write them. */
export interface MeshKey {
  readonly privateKey: string
  readonly publicKey: string
}

/** What a raw key has in front in PKCS #8 DER (RFC 8410 7): the key itself is its last 32 bytes. */
const pkcs8Head = Buffer.from('302e020100300506032b656e04220420', 'hex')
const rawBytes = 32

/** Reads the host's key, or makes one. The private half is written to this file (0600) and to the device, nowhere else. */
export async function openKey(file: string): Promise<MeshKey> {
  const text = (await readIfExists(file))?.trim()
  return text ? keyOf(text) : newKey(file)
}

/** Replaces the host's key. */
export async function newKey(file: string): Promise<MeshKey> {
  const { privateKey } = generateKeyPairSync('x25519')
  const raw = privateKey.export({ type: 'pkcs8', format: 'der' }).subarray(-rawBytes).toString('base64')
  await writeFileAtomic(file, `${raw}\n`, { mode: 0o600 })
  return keyOf(raw)
}

/** How old the key is. */
export async function keyAgeMs(file: string, nowMs: number): Promise<number> {
  return nowMs - (await stat(file)).mtimeMs
}

/** @throws Error when it is no key; the text is not in the message */
function keyOf(privateKey: string): MeshKey {
  const raw = Buffer.from(privateKey, 'base64')
  if (raw.length !== rawBytes)
    throw new Error('the mesh key file does not hold a key: remove it, and a new one is made')
  const key = createPrivateKey({ key: Buffer.concat([pkcs8Head, raw]), format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' }).subarray(-rawBytes).toString('base64')
  return { privateKey, publicKey }
}
