import type { VmExecAnswer } from '../../contract/agent.ts'
import { StepError } from '../vm/errors.ts'
import type { GuestChannel } from './channel.ts'
import { encodeWord } from './words.ts'

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
  const parts: Record<'o' | 'e', Buffer[]> = { o: [], e: [] }
  const answer = await guest
    .request(line, timeoutMs + answerGraceMs, (kind, text) => parts[kind].push(decodeBytes(text)))
    .catch((error: unknown) => Promise.reject(StepError.wrap('exec_failed', error)))
  const [exitCode = 0, truncated = 0] = answer.split(' ').map(Number)
  const text = (kind: 'o' | 'e') => Buffer.concat(parts[kind]).toString('utf8')
  return { exitCode, stdout: text('o'), stderr: text('e'), truncated: truncated === 1 }
}

function decodeBytes(text: string): Buffer {
  return Buffer.from(
    text.replace(/%([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  )
}
