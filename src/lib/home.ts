import { homedir } from 'node:os'
import { resolve } from 'node:path'

/** Of this user. One that is in no list of users, such as systemd's dynamic ones, has none: the working directory then. */
export function homeDir(): string {
  try {
    return homedir()
  } catch {
    return resolve('.')
  }
}
