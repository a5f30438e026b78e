/** Parsers for responses that the contract leaves open, as docs/contract.md describes them ("Compute"). */
type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')
const numberOf = (value: unknown) => (typeof value === 'number' ? value : 0)

export interface VmSnapshot {
  readonly name: string
  /** `creating`, `ready` or `failed` */
  readonly status: string
  readonly error: string
  readonly sizeBytes: number
  readonly pauseMs: number
  readonly createdAt: string
  /** Whether it includes a volume with write access. */
  readonly hasWritable: boolean
}

const isWritable = (volume: unknown) => fieldsOf(volume).read_only === false

export const snapshotsOf = (value: unknown): readonly VmSnapshot[] =>
  (Array.isArray(value) ? value : []).map(fieldsOf).map(snapshot => ({
    name: textOf(snapshot.name),
    status: textOf(snapshot.status),
    error: textOf(snapshot.error),
    sizeBytes: numberOf(snapshot.size_bytes),
    pauseMs: numberOf(snapshot.pause_ms),
    createdAt: textOf(snapshot.created_at),
    hasWritable: Array.isArray(snapshot.volumes) && snapshot.volumes.some(isWritable),
  }))

export interface Balloon {
  readonly targetMib: number
  readonly actualMib: number
  readonly memoryMib: number
  readonly floorMib: number
}

export function balloonOf(value: unknown): Balloon {
  const balloon = fieldsOf(value)
  return {
    targetMib: numberOf(balloon.target_memory_mib),
    actualMib: numberOf(balloon.actual_memory_mib),
    memoryMib: numberOf(balloon.memory_mib),
    floorMib: numberOf(balloon.floor_mib),
  }
}

interface Progress {
  /** `none` if there was no migration yet */
  readonly status: string
  readonly percent: number
  readonly error: string
  readonly endedAt: string
}

const progressOf = (fields: Fields): Progress => ({
  status: textOf(fields.status) || 'none',
  percent: numberOf(fields.percent),
  error: textOf(fields.error),
  endedAt: textOf(fields.ended_at),
})

export interface VolumeMove extends Progress {
  /** The host that stores the volume. */
  readonly hostId: string
  /** Why the volume cannot move now; empty if it can. */
  readonly obstacle: string
}

export function volumeMoveOf(value: unknown): VolumeMove {
  const move = fieldsOf(value)
  return {
    ...progressOf(move),
    hostId: textOf(move.host_id),
    obstacle: textOf(move.obstacle),
  }
}

export interface Migration extends Progress {
  readonly method: string
  readonly targetHost: string
  readonly downtimeMs: number
}

export function migrationOf(value: unknown): Migration {
  const migration = fieldsOf(value)
  return {
    ...progressOf(migration),
    method: textOf(migration.method),
    targetHost: textOf(migration.target_host),
    downtimeMs: numberOf(migration.downtime_ms),
  }
}

export interface LogLine {
  readonly at: string
  readonly stream: string
  readonly line: string
  readonly deploymentId: string
  readonly vmId: string
}

export function logLineOf(value: unknown): LogLine {
  const line = fieldsOf(value)
  return {
    at: textOf(line.at),
    stream: textOf(line.stream),
    line: textOf(line.line),
    deploymentId: textOf(line.deployment_id),
    vmId: textOf(line.vm_id),
  }
}

export interface Sample {
  readonly deploymentId: string
  readonly cpuPercent: number
  readonly ramBytes: number
  readonly rxBytes: number
  readonly txBytes: number
  readonly memoryMib: number
  /** Seconds since 1970. */
  readonly at: number
}

export function sampleOf(value: unknown, at?: string): Sample {
  const sample = fieldsOf(value)
  return {
    deploymentId: textOf(sample.deployment_id),
    cpuPercent: numberOf(sample.cpu_usage),
    ramBytes: numberOf(sample.ram_used_bytes),
    rxBytes: numberOf(sample.rx_bytes),
    txBytes: numberOf(sample.tx_bytes),
    memoryMib: numberOf(sample.memory_mib),
    at: Date.parse(at ?? textOf(sample.at)) / 1000,
  }
}

export const itemsOf = (value: unknown, name: string): readonly unknown[] => {
  const items = fieldsOf(value)[name]
  return Array.isArray(items) ? items : []
}
export const fieldOf = (value: unknown, name: string) => textOf(fieldsOf(value)[name])
