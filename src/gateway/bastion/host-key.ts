import { mkdir, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import { makeKeyPair } from '../../lib/openssh-key.ts'

/**
 * Returns the bastion's host key, which is created once: with a new key, every client would refuse to connect. It is
 * created neither with ssh-keygen, which needs a user with a name, nor with the SSH library, whose generator sometimes
 * produces a malformed Ed25519 key.
 * @returns the private key, in OpenSSH's format
 */
export async function hostKey(file: string): Promise<string> {
  const found = await readIfExists(file)
  if (found !== undefined) return found
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await writeFileAtomic(file, makeKeyPair('mote bastion').privateKey)
  return readFile(file, 'utf8')
}
