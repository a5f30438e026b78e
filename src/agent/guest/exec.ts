import type { VmExecAnswer } from '../../contract/agent.ts'
import { StepError } from '../base/step-error.ts'
import { ExecResult, parseWords } from './answers.ts'
import type { GuestChannel } from './channel.ts'
import { decodeWord, encodeWord } from '../../lib/words.ts'

/** Maximum length of an `exec` line. The guest reads lines of at most 128 KiB. */
const lineLimitBytes = 120_000
/** Time that the host waits for an answer beyond the program's timeout, at which the guest kills the program. */
const answerGraceMs = 5_000

/**
 * Runs a program in the guest as the image's user, in its working directory and environment, without a shell. A program
 * that runs longer than `timeoutMs` is killed, and its exit code is 124, as with timeout(1).
 * @throws StepError `invalid_request` if the command is too long, `exec_failed` if the guest cannot run it.
 */
export async function execInGuest(
  guest: GuestChannel,
  command: readonly string[],
  timeoutMs: number,
): Promise<VmExecAnswer> {
  const line = `exec ${timeoutMs} ${command.map(encodeWord).join(' ')}`
  if (line.length > lineLimitBytes)
    throw new StepError('invalid_request', `a command can have at most ${lineLimitBytes} bytes`)
  const output = { o: boundedOutput(), e: boundedOutput() }
  const [exitCode, truncated] = await guest
    .request(line, timeoutMs + answerGraceMs, { onPart: (kind, text) => output[kind].add(text) })
    .then(answer => parseWords(ExecResult, answer))
    .catch((error: unknown) => Promise.reject(StepError.wrap('exec_failed', error)))
  const { o, e } = output
  return { exitCode, stdout: o.text(), stderr: e.text(), truncated: truncated === 1 || o.isCut() || e.isCut() }
}

/**
 * Maximum number of concurrent programs. The guest has the same limit (MAX_RUNNING in guest/exec.c), but root in the
 * guest can bypass it, and each program's output uses the agent's memory.
 */
const mostRunning = 8

/**
 * Wraps `execInGuest` to limit the number of concurrent programs.
 * @throws StepError `exec_failed` if the limit is reached
 */
export function programsOf(
  guest: GuestChannel,
): (command: readonly string[], timeoutMs: number) => Promise<VmExecAnswer> {
  let running = 0
  return async (command, timeoutMs) => {
    if (running >= mostRunning)
      throw new StepError('exec_failed', `at most ${mostRunning} programs can run at once: wait until one has ended`)
    running += 1
    try {
      return await execInGuest(guest, command, timeoutMs)
    } finally {
      running -= 1
    }
  }
}

/**
 * Maximum size of each output stream of a program. The guest has the same limit (OUTPUT_MAX in guest/exec.c), but root
 * in the guest can bypass it.
 */
const maxOutputBytes = 1 << 20
/** Length of an escaped control character in JSON (`\u0000`). An output of 1 MiB of zeros would take 6 MiB. */
const controlBytes = 6

function boundedOutput() {
  const parts: Buffer[] = []
  let room = maxOutputBytes
  let cut = false
  return {
    add(encoded: string) {
      // After a part was truncated, all further parts are dropped.
      if (cut) return
      const part = decodeWord(encoded)
      const fits = prefixWithin(part, room)
      cut = fits.length < part.length
      room -= fits.cost
      parts.push(part.subarray(0, fits.length))
    },
    text: () => Buffer.concat(parts).toString('utf8'),
    isCut: () => cut,
  }
}

/** Returns the length of the longest prefix whose JSON fits into `room` bytes, and the size of that JSON. */
function prefixWithin(part: Buffer, room: number): { readonly length: number; readonly cost: number } {
  let cost = 0
  for (const [length, byte] of part.entries()) {
    const next = cost + (isLongInJson(byte) ? controlBytes : 1)
    if (next > room) return { length, cost }
    cost = next
  }
  return { length: part.length, cost }
}

/** True for control characters except tab, line feed and carriage return, which JSON escapes with two characters. */
const isLongInJson = (byte: number) => byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d
