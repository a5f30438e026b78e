/**
 * A socket that sends all the statements of one turn of the event loop with one system call. The driver makes one for each
 * statement, and each wakes the server: a third of the CPU of a busy control plane was that.
 */
import { Socket } from 'node:net'

export class BatchingSocket extends Socket {
  /** The driver corks around the messages of each prepared statement; the first cork of a turn holds until its end. */
  override cork(): void {
    if (this.writableCorked === 0) {
      super.cork()
      setImmediate(() => super.uncork())
    }
    super.cork()
  }
}
