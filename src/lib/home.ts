import { homedir } from 'node:os'
import { resolve } from 'node:path'

/**
 * Returns the user's home directory, or the working directory for users without an entry in passwd, such as systemd's
 * dynamic users.
 */
export function homeDir(): string {
  try {
    return homedir()
  } catch {
    return resolve('.')
  }
}
