/**
 * Records the logs of a whole test run. Programs that tests start log at trace level into the run's log directory,
 * where test clients also record all secrets that they send or receive. After the run, the global teardown searches the
 * logs for these secrets (log-search.ts), and fails the run if it finds any.
 */
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Logger, pino } from 'pino'
import { createLog } from '../../src/programs/log.ts'

export const logDirVariable = 'MOTE_TEST_LOG_DIR'

const dir = () => process.env[logDirVariable]
const fileOf = (kind: 'log' | 'secrets' | 'output') => join(dir() ?? '.', `${kind}.${process.pid}.jsonl`)

let shared: Logger | undefined

/** Returns the production logger, including redaction. `MOTE_TEST_LOG=info` prints log lines instead. */
export function testLog(level = process.env['MOTE_TEST_LOG']): Logger {
  if (level !== undefined) return pino({ level })
  if (dir() === undefined) return pino({ level: 'silent' })
  return (shared ??= createLog({ level: 'trace', file: fileOf('log') }))
}

/** Records the output of a child process. */
export function recordOutput(text: string): void {
  if (dir() !== undefined) appendFileSync(fileOf('output'), text)
}

const written = new Set<string>()

/** Records a secret that no log line of the run may contain. */
export function recordSecret(what: string, value: string): void {
  // Skip short values, which would match by chance: a TOTP code is any six digits.
  if (value.length < 8 || written.has(value) || dir() === undefined) return
  written.add(value)
  appendFileSync(fileOf('secrets'), `${JSON.stringify([what, value])}\n`)
}

const secretFields = new Set([
  ...['password', 'current_password', 'new_password', 'token', 'refresh_token', 'secret', 'otpauth_url'],
  ...['recovery_codes', 'scm_webhook_secret', 'connection_string', 'connection_url', 'captcha_answer'],
])
/** In a request, `code` is a recovery code; in a response, it is an error code, which logs may contain. */
const secretFieldsOfRequests = new Set([...secretFields, 'code'])

/** Records the secrets in a request and its response, which are found by field name. */
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
