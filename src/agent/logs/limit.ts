export interface LogLimits {
  /** Maximum disk space for one VM's log. */
  readonly maxBytes: number
  readonly linesPerSecond: number
  readonly bytesPerSecond: number
}

/**
 * Limits the lines and bytes per second of a log with two token buckets, which hold the tokens of two seconds. Short
 * bursts pass; of a sustained flood, lines are dropped.
 */
export function lineLimit(limits: LogLimits, nowMs: () => number): { take(bytes: number): boolean } {
  const burstSeconds = 2
  let lines = limits.linesPerSecond * burstSeconds
  let bytes = limits.bytesPerSecond * burstSeconds
  let last = nowMs()
  return {
    take(size) {
      const elapsed = Math.max(0, nowMs() - last) / 1000
      last = nowMs()
      lines = Math.min(limits.linesPerSecond * burstSeconds, lines + elapsed * limits.linesPerSecond)
      bytes = Math.min(limits.bytesPerSecond * burstSeconds, bytes + elapsed * limits.bytesPerSecond)
      if (lines < 1 || bytes < size) return false
      lines -= 1
      bytes -= size
      return true
    },
  }
}
