import { createHash } from 'node:crypto'
import { Type, type Static } from 'typebox'
import { DiskSpec, MigrationObserved, type VmSpec, VmStep } from '../../contract/agent.ts'

const Prepared = Type.Object({
  imageDigest: Type.String(),
  endpoint: Type.Object({ host: Type.String(), port: Type.Integer() }),
  notes: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()])),
})

/** The host's record of a VM, in addition to its desired state. Stored after every change, to survive restarts. */
export const VmRecord = Type.Object({
  /** Number of boots so far, including that of the current process. */
  boot: Type.Integer(),
  running: Type.Union([
    Type.Object({
      prepared: Prepared,
      process: Type.Object({ pid: Type.Integer(), startTicks: Type.Integer() }),
      boot: Type.Integer(),
    }),
    Type.Null(),
  ]),
  /** Hash of the spec fields whose change needs a new boot (`bootKey`), of the spec that the process was started with. */
  bootKey: Type.String(),
  paused: Type.Boolean(),
  imageDigest: Type.Union([Type.String(), Type.Null()]),
  startedAtMs: Type.Union([Type.Number(), Type.Null()]),
  restartCount: Type.Integer(),
  /** Restarts that count against `maxRestarts`. A long run resets the counter. */
  recentRestarts: Type.Integer(),
  exitCode: Type.Union([Type.Integer(), Type.Null()]),
  /** The VM has crashed and does not start again for desired states up to this generation. */
  crash: Type.Union([
    Type.Object({ generation: Type.Integer(), code: Type.String(), message: Type.String() }),
    Type.Null(),
  ]),
  steps: Type.Array(VmStep),
  /** Volumes that are attached or were about to be. */
  disks: Type.Optional(Type.Array(DiskSpec)),
  /** The snapshot that depends on the volumes' contents. The VM does not run while the snapshot exists. */
  keptFor: Type.Optional(Type.String()),
  /** `originKey` of the last restored snapshot with volumes. It is restored only once; later starts boot. */
  origin: Type.Optional(Type.String()),
  /** The last migration of the VM from or to this host. */
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

/** Hashes the fields of the spec whose change requires a new boot. The other fields are applied at run time. */
export function bootKey(spec: VmSpec): string {
  const { balloonTargetMib: _balloon, maxRestarts: _restarts, healthCheckPath: _health, ...kept } = spec
  // Origin and migration do not affect the running VM, and volumes are attached at run time.
  const { disks: _disks, firewall: _firewall, from: _from, incoming: _incoming, outgoing: _outgoing, ...runs } = kept
  // These fields only affect how the image is fetched, and what happens after an exit.
  const { builtImage: _built, signIn: _signIn, restartOn: _restartOn, ...rest } = runs
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
