/** The format of requests to launcher.c and of its answers. */
import { endianness } from 'node:os'

export interface Request {
  readonly id: number
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly input: string
  readonly cwd?: string
  /** Only for a program that outlives the agent: file for its stderr, and for its stdout unless `stdout` is set. */
  readonly errorFile?: string
  readonly stdin?: string
  readonly stdout?: string
  readonly cgroup?: string
}

export type Answer =
  | { readonly is: 'started'; readonly id: number; readonly pid: number }
  | { readonly is: 'failed'; readonly id: number; readonly errno: number }
  | {
      readonly is: 'ended'
      readonly id: number
      /** Exit code of the program; null if a signal killed it. */
      readonly code: number | null
      readonly signal: number
      readonly stdout: string
      readonly stderr: string
    }

const little = endianness() === 'LE'

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  if (little) bytes.writeUInt32LE(value)
  else bytes.writeUInt32BE(value)
  return bytes
}

export const i32At = (bytes: Buffer, at: number) => (little ? bytes.readInt32LE(at) : bytes.readInt32BE(at))
const u32At = (bytes: Buffer, at: number) => (little ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at))

/** Encodes a request. @throws Error if an argument contains a zero byte, which would truncate it */
export function requestBytes({ id, argv, env, input, cwd = '', cgroup = '', ...files }: Request): Buffer {
  const { stdin = '', stdout = '', errorFile = '' } = files
  const variables = variablesOf(env)
  const texts = [cwd, stdin, stdout, errorFile, cgroup, ...argv, ...variables]
  return framed([id, argv.length, variables.length], texts, input)
}

export const variablesOf = (env: Request['env']): string[] =>
  Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]))

/**
 * Encodes a frame: its length, the numbers (u32), the texts with a zero byte after each, and `rest`.
 * @throws Error if a text contains a zero byte
 */
export function framed(numbers: readonly number[], texts: readonly string[], rest = ''): Buffer {
  if (texts.some(text => text.includes('\0'))) throw new Error('an argument of a program contains a zero byte')
  const body = Buffer.concat([
    ...numbers.map(u32),
    ...[Buffer.from(texts.map(text => `${text}\0`).join('')), Buffer.from(rest)],
  ])
  return Buffer.concat([u32(body.length), body])
}

const headBytes = 17

function parseAnswer(bytes: Buffer): Answer {
  const [id, kind] = [u32At(bytes, 0), String.fromCharCode(bytes.readUInt8(4))]
  const [a, b, out] = [i32At(bytes, 5), i32At(bytes, 9), u32At(bytes, 13)]
  if (kind === 'S') return { is: 'started', id, pid: a }
  if (kind === 'F') return { is: 'failed', id, errno: a }
  const stdout = bytes.toString('utf8', headBytes, headBytes + out)
  const stderr = bytes.toString('utf8', headBytes + out)
  return { is: 'ended', id, code: b === 0 ? a : null, signal: b, stdout, stderr }
}

/** Returns a function that takes chunks of the launcher's output and calls `onAnswer` for each answer. */
export function answersOf(onAnswer: (answer: Answer) => void): (part: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return part => {
    rest = rest.length === 0 ? part : Buffer.concat([rest, part])
    while (rest.length >= 4 && rest.length >= 4 + u32At(rest, 0)) {
      const end = 4 + u32At(rest, 0)
      onAnswer(parseAnswer(rest.subarray(4, end)))
      rest = rest.subarray(end)
    }
  }
}
