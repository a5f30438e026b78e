/**
 * A socket that sends all statements of one event-loop turn in one system call. The driver makes one call per
 * statement, and each call wakes the server, which took a third of the CPU time of a busy control plane.
 */
import { Socket } from 'node:net'

export class BatchingSocket extends Socket {
  /**
   * Holds back the data of an event-loop turn until the turn's end. The driver corks the socket for each prepared
   * statement; the first cork of a turn is kept until the turn ends.
   */
  override cork(): void {
    if (this.writableCorked === 0) {
      super.cork()
      setImmediate(() => super.uncork())
    }
    super.cork()
  }
}
