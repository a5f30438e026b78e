import { mkdir, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { run } from '../../lib/exec.ts'

/**
 * The bastion's own key, made once and kept: a new one would make every client refuse. By ssh-keygen, since the library's
 * generator makes a malformed Ed25519 key now and then.
 * @returns the private key, in OpenSSH's form
 */
export async function hostKey(file: string): Promise<string> {
  const found = await readFile(file, 'utf8').catch(() => undefined)
  if (found !== undefined) return found
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'mote bastion', '-f', file])
  return readFile(file, 'utf8')
}
