import { Writable } from 'node:stream'
import { type Logger, destination, pino } from 'pino'
import { printableInColour } from '../lib/printable.ts'
import { pc } from './colours.ts'

export interface LogOptions {
  readonly level: string
  /** File to which the program logs instead of standard error. */
  readonly file?: string
}

/** Names of members that are redacted in log lines, in case a secret is logged by mistake. */
const secrets = [
  'password',
  'token',
  'refresh_token',
  'secret',
  'authorization',
  '*.password',
  '*.token',
  '*.refresh_token',
  '*.secret',
  '*.authorization',
  'headers.authorization',
]

/** Creates a logger: JSON lines for programs, short colored lines on a terminal. */
export function createLog(options: LogOptions): Logger {
  const settings = { level: options.level, redact: { paths: secrets, censor: '[secret]' } }
  if (options.file) return pino(settings, destination({ dest: options.file, mkdir: true, sync: false }))
  if (process.stderr.isTTY) return pino(settings, humanStream())
  return pino(settings, destination({ dest: 2, sync: false }))
}

const levels: Readonly<Record<number, string>> = {
  20: pc.dim('debug'),
  30: pc.green('info '),
  40: pc.yellow('warn '),
  50: pc.red('error'),
  60: pc.red('fatal'),
}

function humanStream(): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, callback) {
      const { level, time, msg, err, pid: _pid, hostname: _hostname, ...rest } = JSON.parse(chunk.toString())
      const details = Object.entries(rest)
        .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
        .join(' ')
      const clock = new Date(time).toISOString().slice(11, 23)
      const fault = err ? `\n  ${pc.red(err.stack ?? err.message)}` : ''
      const line = `${pc.dim(clock)} ${levels[level] ?? level} ${msg} ${pc.dim(details)}${fault}`
      process.stderr.write(`${printableInColour(line)}\n`)
      callback()
    },
  })
}
