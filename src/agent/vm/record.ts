import { createHash } from 'node:crypto'
import { Type, type Static } from 'typebox'
import { DiskSpec, MigrationObserved, type VmSpec, VmStep } from '../../contract/agent.ts'

const Prepared = Type.Object({
  imageDigest: Type.String(),
  endpoint: Type.Object({ host: Type.String(), port: Type.Integer() }),
  notes: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()])),
})

/**
 * The host's record of a VM, in addition to its desired state. Stored after every change, so that it survives restarts
 * of the agent.
 */
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
  /** Hash of the spec with which the process was started, over the fields whose change needs a new boot (`bootKey`). */
  bootKey: Type.String(),
  paused: Type.Boolean(),
  imageDigest: Type.Union([Type.String(), Type.Null()]),
  startedAtMs: Type.Union([Type.Number(), Type.Null()]),
  restartCount: Type.Integer(),
  /** Number of restarts that count toward `maxRestarts`. A run of ten minutes resets it. */
  recentRestarts: Type.Integer(),
  exitCode: Type.Union([Type.Integer(), Type.Null()]),
  /** Set if the VM has crashed. The VM does not start again for desired states up to this generation. */
  crash: Type.Union([
    Type.Object({ generation: Type.Integer(), code: Type.String(), message: Type.String() }),
    Type.Null(),
  ]),
  steps: Type.Array(VmStep),
  /** Volumes that are attached to the VM, or whose attachment has begun. */
  disks: Type.Optional(Type.Array(DiskSpec)),
  /**
   * Id of the snapshot that depends on the current contents of the volumes. The VM does not run while this snapshot
   * exists.
   */
  keptFor: Type.Optional(Type.String()),
  /**
   * `originKey` of the last snapshot with volumes that was restored. A snapshot is restored only once; later starts
   * boot.
   */
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
  // The origin and a migration do not affect the running VM. Volumes and the firewall are changed while it runs.
  const { disks: _disks, firewall: _firewall, from: _from, incoming: _incoming, outgoing: _outgoing, ...runs } = kept
  // `builtImage` and `signIn` only affect how the image is fetched, `restartOn` only what happens after an exit.
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
