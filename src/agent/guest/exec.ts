import type { VmExecAnswer } from '../../contract/agent.ts'
import { StepError } from '../vm/errors.ts'
import { ExecResult, parseWords } from './answers.ts'
import type { GuestChannel } from './channel.ts'
import { decodeWord, encodeWord } from './words.ts'

/** The guest reads lines of at most 128 KiB. */
const lineLimitBytes = 120_000
/** Over the guest's own limit, which ends the program: a guest that does not keep it is stuck. */
const answerGraceMs = 5_000

/**
 * Runs a program in the guest as the image's user, in its working directory and environment, without a shell. One that
 * is not done after `timeoutMs` is killed, and its exit code is 124, as timeout(1) has it.
 * @throws StepError `invalid_request` when the command is too long, `exec_failed` when the guest cannot run it.
 */
export async function execInGuest(
  guest: GuestChannel,
  command: readonly string[],
  timeoutMs: number,
): Promise<VmExecAnswer> {
  const line = `exec ${timeoutMs} ${command.map(encodeWord).join(' ')}`
  if (line.length > lineLimitBytes)
    throw new StepError('invalid_request', `a command has at most ${lineLimitBytes} bytes`)
  const output = { o: boundedOutput(), e: boundedOutput() }
  const [exitCode, truncated] = await guest
    .request(line, timeoutMs + answerGraceMs, (kind, text) => output[kind].add(text))
    .then(answer => parseWords(ExecResult, answer))
    .catch((error: unknown) => Promise.reject(StepError.wrap('exec_failed', error)))
  const { o, e } = output
  return { exitCode, stdout: o.text(), stderr: e.text(), truncated: truncated === 1 || o.isCut() || e.isCut() }
}

/** The guest's own limit (MAX_RUNNING in guest/exec.c), which root in it need not keep: each holds its output here. */
const mostRunning = 8

/** `execInGuest`, for a bounded number of programs at once. @throws StepError `exec_failed` for one more */
export function programsOf(
  guest: GuestChannel,
): (command: readonly string[], timeoutMs: number) => Promise<VmExecAnswer> {
  let running = 0
  return async (command, timeoutMs) => {
    if (running >= mostRunning) throw new StepError('exec_failed', 'too many programs run at once')
    running += 1
    try {
      return await execInGuest(guest, command, timeoutMs)
    } finally {
      running -= 1
    }
  }
}

/** The guest's own limit (OUTPUT_MAX in guest/exec.c), which root in it need not keep. */
const maxOutputBytes = 1 << 20

function boundedOutput() {
  const parts: Buffer[] = []
  let bytes = 0
  let cut = false
  return {
    add(encoded: string) {
      const room = maxOutputBytes - bytes
      if (room === 0) {
        cut = true
        return
      }
      const part = decodeWord(encoded)
      cut ||= part.length > room
      parts.push(part.subarray(0, room))
      bytes += Math.min(part.length, room)
    },
    text: () => Buffer.concat(parts).toString('utf8'),
    isCut: () => cut,
  }
}
