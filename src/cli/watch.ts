/** Repeats a command until Ctrl-C, with `--watch`. */
import { setTimeout as sleep } from 'node:timers/promises'
import { raw, shownText } from './terminal.ts'
import type { Answer, Call } from './verb.ts'

export const watchFlag = ['-w, --watch', 'refresh every two seconds, until Ctrl-C'] as const

const pauseMs = 2000
/** Clears the screen and moves to its beginning (ECMA-48 CUP, ED). */
const clear = '\u001b[H\u001b[J'

/** With `--watch`, prints results until Ctrl-C: in place on a terminal, else or with `--json` one after another. */
export async function watched({ flags, signal }: Call, read: () => Promise<Answer>): Promise<Answer> {
  if (flags.watch !== true) return read()
  const inPlace = process.stdout.isTTY && flags.json !== true
  for (;;) {
    const { json, text } = await read()
    raw('stdout', `${inPlace ? clear : ''}${shownText(flags.json === true ? JSON.stringify(json) : text)}\n`)
    await sleep(pauseMs, undefined, { signal })
  }
}
