/** The retention policy of the bus: which subjects are retained, for how long and how much. */
export interface StreamPolicy {
  readonly name: string
  readonly subjects: readonly string[]
  readonly maxAgeSeconds: number
  readonly maxBytes: number
  /** Number of newest messages of each subject that the stream retains. */
  readonly maxPerSubject: number
}

export const streams = [
  // Log lines of VMs, published by agents: `log.<host>.<project>.<app>.<deployment>.<vm>`. The host id comes first, so
  // that a host's bus permissions can be limited to `log.<its id>.>`.
  { name: 'LOG', subjects: ['log.>'], maxAgeSeconds: 24 * 3600, maxBytes: 1 << 30, maxPerSubject: 10_000 },
] as const satisfies readonly StreamPolicy[]
