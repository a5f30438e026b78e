/** Prints a log: past lines, and with `--follow` new lines until Ctrl-C. */
import type { StreamEvent, StreamOptions } from '../client/index.ts'
import { logText } from './follow.ts'
import { type Answer, type Call, wholeNumber } from './verb.ts'
import { err, out } from './terminal.ts'

export const logFlags = [
  ['-f, --follow', 'follow the log until Ctrl-C'],
  ['-n, --tail <lines>', 'number of past lines (default 100)'],
] as const

type Open = (query: { readonly tail: number }, options: StreamOptions) => AsyncGenerator<StreamEvent>

/** Duration of a pause that marks the end of the past lines, which arrive together after the snapshot event. */
const quietMs = 700

/** Prints the lines of the stream. @throws Interrupted on Ctrl-C */
export async function printLog({ flags, signal }: Call, open: Open): Promise<Answer> {
  const enough = new AbortController()
  const end = () => enough.abort()
  const stream = open({ tail: wholeNumber(flags, 'tail') ?? 100 }, { signal: AbortSignal.any([signal, enough.signal]) })
  let quiet = flags.follow ? undefined : setTimeout(end, quietMs * 3)
  try {
    for await (const { event, data } of stream) {
      if (event === 'log') out(`${flags.json ? JSON.stringify(data) : logText(data)}\n`)
      if (event === 'gap') err('(lines were lost here)\n')
      if (quiet === undefined) continue
      clearTimeout(quiet)
      quiet = setTimeout(end, quietMs)
    }
  } finally {
    clearTimeout(quiet)
  }
  signal.throwIfAborted()
  return { json: undefined, text: '' }
}
