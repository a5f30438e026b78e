/**
 * The log of the whole test run: every program that a test starts writes it at trace level into a directory of the run,
 * and every secret that passes through a test client is written down beside it. When the run is over, the global
 * teardown searches the one for the other (log-search.ts) and fails the run.
 */
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Logger, pino } from 'pino'
import { createLog } from '../../src/programs/log.ts'

export const logDirVariable = 'MOTE_TEST_LOG_DIR'

const dir = () => process.env[logDirVariable]
const fileOf = (kind: 'log' | 'secrets' | 'output') => join(dir() ?? '.', `${kind}.${process.pid}.jsonl`)

let shared: Logger | undefined

/** As production makes it, redaction included. `MOTE_TEST_LOG=info` prints instead. */
export function testLog(level = process.env['MOTE_TEST_LOG']): Logger {
  if (level !== undefined) return pino({ level })
  if (dir() === undefined) return pino({ level: 'silent' })
  return (shared ??= createLog({ level: 'trace', file: fileOf('log') }))
}

/** What a child process printed. */
export function recordOutput(text: string): void {
  if (dir() !== undefined) appendFileSync(fileOf('output'), text)
}

const written = new Set<string>()

/** Must not be in any log line of the run. */
export function recordSecret(what: string, value: string): void {
  // Too short to be told from an accident: a TOTP code is any six digits.
  if (value.length < 8 || written.has(value) || dir() === undefined) return
  written.add(value)
  appendFileSync(fileOf('secrets'), `${JSON.stringify([what, value])}\n`)
}

const secretFields = new Set([
  ...['password', 'current_password', 'new_password', 'token', 'refresh_token', 'secret', 'otpauth_url'],
  ...['recovery_codes', 'scm_webhook_secret', 'connection_string', 'connection_url', 'captcha_answer'],
])
/** `code` of a request is a recovery code; that of an answer is the kind of an error, which logs may name. */
const secretFieldsOfRequests = new Set([...secretFields, 'code'])

/** Finds the secrets of a request and its answer by the names of their fields, and records them. */
export function recordSecretsOf(exchange: { readonly request: unknown; readonly answer: unknown }): void {
  recordFields(exchange.request, secretFieldsOfRequests)
  recordFields(exchange.answer, secretFields)
}

function recordFields(body: unknown, secrets: ReadonlySet<string>, field = ''): void {
  if (typeof body === 'string') {
    if (secrets.has(field)) recordSecret(field, body)
  } else if (Array.isArray(body)) for (const item of body) recordFields(item, secrets, field)
  else if (typeof body === 'object' && body !== null)
    for (const [name, value] of Object.entries(body)) recordFields(value, secrets, name)
}
