import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface LogSearch {
  readonly lines: number
  readonly secrets: number
  /** For each leak, the kind of secret and the log line, with the secret masked. */
  readonly leaks: readonly string[]
}

/** Patterns of secrets, which must not appear in logs even if no test client has recorded them. */
const forms = {
  'access or refresh token': /svc_(?:pat|rt)_[A-Za-z0-9_-]{43}/g,
  'session token': /eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}/g,
  'password hash': /\$argon2\w*\$[^\s"]+/g,
  'bearer credential': /bearer +[\w.~+/-]{16,}/gi,
} as const

/** Searches the logs of a test run for secrets. @param dir directory that log.ts has written */
export async function searchLogs(dir: string): Promise<LogSearch> {
  const names = await readdir(dir).catch(() => [])
  const read = async (...kinds: readonly string[]) =>
    Promise.all(
      names
        .filter(name => kinds.some(kind => name.startsWith(`${kind}.`)))
        .map(name => readFile(join(dir, name), 'utf8')),
    )
  const secrets = new Map<string, string>()
  for (const line of (await read('secrets')).join('').split('\n'))
    if (line !== '') {
      const [what, value]: [string, string] = JSON.parse(line)
      // Skip secrets that match a pattern, because the patterns find them.
      if (!Object.values(forms).some(form => value.search(form) !== -1)) secrets.set(value, what)
    }
  const texts = await read('log', 'output')
  const leaks = texts.flatMap(text => [
    ...[...secrets].flatMap(([value, what]) => (text.includes(value) ? linesWith(text, value, what) : [])),
    ...Object.entries(forms).flatMap(([what, form]) => linesWith(text, form, what)),
  ])
  return { lines: texts.reduce((sum, text) => sum + text.split('\n').length - 1, 0), secrets: secrets.size, leaks }
}

/** Returns at most three lines with the secret, because a leak often repeats in thousands of lines. */
function linesWith(text: string, secret: string | RegExp, what: string): string[] {
  const leaks: string[] = []
  for (let at = indexOf(text, secret, 0); at !== -1 && leaks.length < 3; ) {
    const end = text.indexOf('\n', at)
    const line = text.slice(text.lastIndexOf('\n', at) + 1, end === -1 ? undefined : end)
    leaks.push(`${what}: ${line.replaceAll(secret, '***').slice(0, 500)}`)
    at = end === -1 ? -1 : indexOf(text, secret, end)
  }
  return leaks
}

function indexOf(text: string, secret: string | RegExp, from: number): number {
  if (typeof secret === 'string') return text.indexOf(secret, from)
  secret.lastIndex = from
  return secret.exec(text)?.index ?? -1
}
