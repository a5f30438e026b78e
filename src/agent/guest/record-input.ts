import { maxRecordBytes, recordOf } from './records.ts'
import { parseWritten } from './session-words.ts'

/** Maximum number of unanswered records (WRITING_MAX in guest/mote.h). */
const mostWriting = 8

type Put = (offset: number, record: Buffer) => Promise<string>

/**
 * Sends the input of one session as records, several of which may be in flight. Successive calls send their records
 * back to back without waiting for answers, so that the guest always has data to read.
 */
export class RecordInput {
  readonly #put: Put
  readonly #most: number
  /**
   * One promise for each record that the guest has not answered yet, oldest first. It resolves when the guest answers.
   */
  readonly #waiting: Promise<unknown>[] = []
  #lastSent: Promise<void> = Promise.resolve()
  #calls = 0

  /** @param inputBytes maximum number of input bytes that the guest accepts before it has answered */
  constructor(inputBytes: number, put: Put) {
    this.#put = put
    this.#most = Math.max(1, Math.min(mostWriting, Math.floor(inputBytes / maxRecordBytes)))
  }

  get isIdle(): boolean {
    return this.#calls === 0
  }

  /**
   * Sends input. Resolves with the number of input bytes received so far, which may not include all of `data`.
   * @throws Error if the guest refuses the first record
   */
  async put(offset: number, data: Buffer): Promise<number> {
    this.#calls++
    const answers: Promise<number>[] = []
    try {
      const sent = this.#lastSent.then(() => this.#sendAll(offset, data, answers))
      this.#lastSent = sent
      await sent
      return await reached(offset, answers)
    } finally {
      this.#calls--
    }
  }

  /** Sends the data of one call, and stops at the first record that the guest refuses. */
  async #sendAll(offset: number, data: Buffer, answers: Promise<number>[]): Promise<void> {
    let isRefused = false
    for (let at = 0; at === 0 || at < data.length; ) {
      if (this.#waiting.length >= this.#most) await this.#waiting[0]
      if (isRefused) return
      const { bytes, length } = recordOf(data.subarray(at))
      const answer = this.#put(offset + at, bytes).then(parseWritten)
      const settled = answer.then(
        () => undefined,
        () => void (isRefused = true),
      )
      this.#waiting.push(settled)
      settled.finally(() => this.#waiting.splice(this.#waiting.indexOf(settled), 1))
      answers.push(answer)
      if (length === 0) return
      at += length
    }
  }
}

async function reached(offset: number, answers: readonly Promise<number>[]): Promise<number> {
  let position = offset
  for (const [n, answer] of answers.entries())
    try {
      position = await answer
    } catch (error) {
      if (n === 0) throw error
      break
    }
  return position
}
