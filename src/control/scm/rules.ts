import { invalidField } from '../http/errors.ts'

const longest = 40

/**
 * Returns the name of a preview app, which must be a DNS label. A long app name is shortened; the number of the pull
 * request is not.
 */
export function previewName(app: string, number: number): string {
  const suffix = `-pr-${number}`
  return app.slice(0, longest - suffix.length).replace(/(?<!-)-+$/, '') + suffix
}

/**
 * Validates host keys in the format of known_hosts (sshd(8)). Host keys are required, because a build cannot ask a
 * user to confirm them.
 */
export function checkKnownHosts(text: string): string {
  const lines = text.split(/\r?\n/).map(line => line.trim())
  const keys = lines.filter(line => line !== '' && !line.startsWith('#'))
  const isKey = (line: string) => /^(@[a-z-]+ )?[^\s]+ [a-z0-9@.-]+ [A-Za-z0-9+/]+=*( .*)?$/.test(line)
  if (keys.length === 0 || keys.length > 50 || !keys.every(isKey))
    throw invalidField(
      'known_hosts',
      'must be the keys of the host, as "ssh-keyscan host" prints them; compare them first',
    )
  return `${keys.join('\n')}\n`
}
