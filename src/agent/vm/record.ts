import { createHash } from 'node:crypto'
import { Type, type Static } from 'typebox'
import { DiskSpec, MigrationObserved, type VmSpec, VmStep } from '../../contract/agent.ts'

const Prepared = Type.Object({
  imageDigest: Type.String(),
  endpoint: Type.Object({ host: Type.String(), port: Type.Integer() }),
  notes: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()])),
})

/** What the host knows about a VM besides its wish; stored after every change, so that a restart goes on from here. */
export const VmRecord = Type.Object({
  /** Boots so far; the current one while there is a process. */
  boot: Type.Integer(),
  running: Type.Union([
    Type.Object({
      prepared: Prepared,
      process: Type.Object({ pid: Type.Integer(), startTicks: Type.Integer() }),
      boot: Type.Integer(),
    }),
    Type.Null(),
  ]),
  /** `bootKey` of the spec that the process runs. */
  bootKey: Type.String(),
  paused: Type.Boolean(),
  imageDigest: Type.Union([Type.String(), Type.Null()]),
  startedAtMs: Type.Union([Type.Number(), Type.Null()]),
  restartCount: Type.Integer(),
  /** Restarts that count against `maxRestarts`: a workload that ran for long starts from zero again. */
  recentRestarts: Type.Integer(),
  exitCode: Type.Union([Type.Integer(), Type.Null()]),
  /** Terminal for wishes up to this generation. */
  crash: Type.Union([
    Type.Object({ generation: Type.Integer(), code: Type.String(), message: Type.String() }),
    Type.Null(),
  ]),
  steps: Type.Array(VmStep),
  /** Volumes that the machine has, or was about to get. */
  disks: Type.Optional(Type.Array(DiskSpec)),
  /** The snapshot for which it was stopped for good: as long as that is there, it does not run. */
  keptFor: Type.Optional(Type.String()),
  /** `originKey` of the snapshot with volumes that it went on from last: it does so once, and boots after that. */
  origin: Type.Optional(Type.String()),
  /** The last one that this host took part in. */
  migration: Type.Optional(MigrationObserved),
})
export type VmRecord = Static<typeof VmRecord>

export const newRecord: VmRecord = {
  boot: 0,
  running: null,
  bootKey: '',
  paused: false,
  imageDigest: null,
  startedAtMs: null,
  restartCount: 0,
  recentRestarts: 0,
  exitCode: null,
  crash: null,
  steps: [],
}

/** Changes when the VM has to boot again for the spec to be true; the other fields are followed while it runs. */
export function bootKey(spec: VmSpec): string {
  const { balloonTargetMib: _balloon, maxRestarts: _restarts, healthCheckPath: _health, ...kept } = spec
  // How it came here and where it goes says nothing about what runs; volumes come and go.
  const { disks: _disks, firewall: _firewall, from: _from, incoming: _incoming, outgoing: _outgoing, ...runs } = kept
  // Says how the image may be fetched, not which it is.
  const { builtImage: _built, ...rest } = runs
  return createHash('sha256')
    .update(JSON.stringify(sorted(rest)))
    .digest('hex')
    .slice(0, 24)
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]))
}
