/**
 * A socket that sends all statements of one event-loop turn in one system call. The driver makes one call per
 * statement, and each wakes the server: that took a third of the CPU of a busy control plane.
 */
import { Socket } from 'node:net'

export class BatchingSocket extends Socket {
  /**
   * The driver corks around the messages of each prepared statement; the first cork of a turn stays until the turn
   * ends.
   */
  override cork(): void {
    if (this.writableCorked === 0) {
      super.cork()
      setImmediate(() => super.uncork())
    }
    super.cork()
  }
}
