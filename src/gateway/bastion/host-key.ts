import { mkdir, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import { makeKeyPair } from '../../lib/openssh-key.ts'

/**
 * The bastion's own key, made once and kept: a new one would make every client refuse. Not by ssh-keygen, which needs a user
 * with a name, nor by the SSH library, whose generator makes a malformed Ed25519 key now and then.
 * @returns the private key, in OpenSSH's form
 */
export async function hostKey(file: string): Promise<string> {
  const found = await readIfExists(file)
  if (found !== undefined) return found
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await writeFileAtomic(file, makeKeyPair('mote bastion').privateKey)
  return readFile(file, 'utf8')
}
