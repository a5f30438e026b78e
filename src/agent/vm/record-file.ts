import { setTimeout as sleep } from 'node:timers/promises'
import type { VmRecord } from './record.ts'
import { recentRestarts, restartPauseMs } from './restarts.ts'

/** The record of one VM in memory and, after every `save`, on disk. */
export class VmRecordFile {
  readonly #write: (record: VmRecord) => Promise<void>
  #record: VmRecord

  constructor(record: VmRecord, write: (record: VmRecord) => Promise<void>) {
    this.#record = record
    this.#write = write
  }

  get record(): VmRecord {
    return this.#record
  }

  /** Changes the record in memory only. The next `save` stores the change. */
  note(change: Partial<VmRecord>): void {
    this.#record = { ...this.#record, ...change }
  }

  async save(change: Partial<VmRecord> = {}): Promise<void> {
    this.note(change)
    await this.#write(this.#record)
  }

  restartsLeft(maxRestarts: number): boolean {
    return recentRestarts(this.#record, Date.now()) < maxRestarts
  }

  async countRestart(): Promise<void> {
    await this.save({ recentRestarts: recentRestarts(this.#record, Date.now()) + 1 })
  }

  async restartPause(signal: AbortSignal): Promise<void> {
    const ms = restartPauseMs(this.#record, Math.random())
    if (ms > 0) await sleep(ms, undefined, { signal })
  }
}
