/** Builds, and what they are made from. */
import { type Static, Type } from 'typebox'
import { HypervisorName } from './vm.ts'

/**
 * `build.put`: an image of a repository, made in a throw-away VM of this host. Repeated until it is over: an equal
 * generation is a repeat, and a host that restarted begins again. `absent` ends it and removes all but its log.
 */
export const BuildPut = Type.Object({
  buildId: Type.String(),
  /** Refused with code `stale_generation` when smaller than what the host has seen. */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  spec: Type.Object({
    projectId: Type.String(),
    appId: Type.String(),
    deploymentId: Type.String(),
    hypervisor: HypervisorName,
    source: Type.Object({
      /** Instead of a repository: what was sent to the control plane, named by its SHA-256 (hexadecimal); `url` is empty then. */
      upload: Type.Optional(Type.String()),
      /** http(s), or with `ssh` also `ssh://` and `user@host:path`. */
      url: Type.String(),
      /** Empty: the repository's default branch. */
      branch: Type.String(),
      /** Full commit id; empty: the newest of the branch. */
      commit: Type.String(),
      /** HTTP basic authentication; the host neither stores it nor shows it to the VM. */
      auth: Type.Optional(Type.Object({ username: Type.String(), password: Type.String() })),
      /** A deploy key (OpenSSH's format), and the host's keys (sshd(8), known_hosts); as with `auth`. */
      ssh: Type.Optional(Type.Object({ privateKey: Type.String(), knownHosts: Type.String() })),
      /** Those on the same host are fetched, too. */
      submodules: Type.Optional(Type.Boolean()),
      /** The repository may be at a private address, and without TLS. */
      allowPrivate: Type.Boolean(),
    }),
    vcpus: Type.Integer({ minimum: 1 }),
    memoryMib: Type.Integer({ minimum: 64 }),
    diskMib: Type.Integer({ minimum: 64 }),
    timeLimitMs: Type.Integer({ minimum: 1 }),
    /** `registry/repository` to push to; null: an OCI layout in the host's image directory. */
    repository: Type.Union([Type.String(), Type.Null()]),
  }),
})
export type BuildPut = Static<typeof BuildPut>

/** The answer of `build.put`, and published on `subjects.build(...)` on every change. */
export const BuildObserved = Type.Object({
  buildId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['fetching', 'building', 'pushing', 'succeeded', 'failed', 'absent']),
  /** Pinned by digest; null before it is pushed. */
  image: Type.Union([Type.String(), Type.Null()]),
  commit: Type.Union([
    Type.Object({ branch: Type.String(), hash: Type.String(), message: Type.String() }),
    Type.Null(),
  ]),
  /** Why it failed, for people. */
  error: Type.Union([Type.String(), Type.Null()]),
})
export type BuildObserved = Static<typeof BuildObserved>

/** A part of a source that was sent to the control plane, asked for by the host that builds it. */
export const SourceRequest = Type.Object({
  buildId: Type.String(),
  offset: Type.Integer({ minimum: 0 }),
})
export type SourceRequest = Static<typeof SourceRequest>

export const SourcePart = Type.Object({
  /** Base64; at most 512 KiB of the archive. */
  data: Type.String(),
  sizeBytes: Type.Integer(),
})
export type SourcePart = Static<typeof SourcePart>
