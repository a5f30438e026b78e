/** Builds and their sources. */
import { type Static, Type } from 'typebox'
import { HypervisorName } from './vm.ts'

/** Settings and values of a build. The host neither stores the values nor writes them into its logs. */
export const BuildInputs = Type.Object({
  /** Path of the Dockerfile in the source; empty: `Dockerfile` or `Containerfile` at its top, if there is one. */
  dockerfile: Type.String(),
  /** Build arguments of a Dockerfile; without a Dockerfile, environment variables of the build commands. */
  args: Type.Record(Type.String(), Type.String()),
  /**
   * Secrets for the Dockerfile steps that mount them; without a Dockerfile, environment variables of the build
   * commands.
   */
  secrets: Type.Record(Type.String(), Type.String()),
})
export type BuildInputs = Static<typeof BuildInputs>

/**
 * `build.put`: builds an image from a source in a temporary VM on this host. Control repeats it until the build ends:
 * an equal generation is a repeat, and a restarted agent starts the build again. `absent` cancels the build and removes
 * everything but its log.
 */
export const BuildPut = Type.Object({
  buildId: Type.String(),
  /** Refused with code `stale_generation` if smaller than the newest generation the host has received. */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  spec: Type.Object({
    projectId: Type.String(),
    appId: Type.String(),
    deploymentId: Type.String(),
    hypervisor: HypervisorName,
    source: Type.Object({
      /**
       * Instead of a repository: an archive uploaded to the control plane, identified by its SHA-256 (hexadecimal).
       * With `upload`, `url` is empty.
       */
      upload: Type.Optional(Type.String()),
      /** URL of the repository: http(s), or with `ssh` also `ssh://` and `user@host:path`. */
      url: Type.String(),
      /** Branch to build; empty: the repository's default branch. */
      branch: Type.String(),
      /** Full id of the commit to build; empty: the newest of the branch. */
      commit: Type.String(),
      /** HTTP basic authentication; the host neither stores it nor passes it to the VM. */
      auth: Type.Optional(Type.Object({ username: Type.String(), password: Type.String() })),
      /**
       * A deploy key (OpenSSH format) and the server's host keys (sshd(8), known_hosts); neither stored nor passed to
       * the VM.
       */
      ssh: Type.Optional(Type.Object({ privateKey: Type.String(), knownHosts: Type.String() })),
      /** Also fetch submodules that are on the same server. */
      submodules: Type.Optional(Type.Boolean()),
      /** The repository may have a private address and may be fetched without TLS. */
      allowPrivate: Type.Boolean(),
    }),
    vcpus: Type.Integer({ minimum: 1 }),
    memoryMib: Type.Integer({ minimum: 64 }),
    diskMib: Type.Integer({ minimum: 64 }),
    timeLimitMs: Type.Integer({ minimum: 1 }),
    /** Build settings; absent: they are detected from the source files. Hosts of earlier releases ignore them. */
    settings: Type.Optional(BuildInputs),
    /** `registry/repository` to push to; null: an OCI layout in the host's image directory. */
    repository: Type.Union([Type.String(), Type.Null()]),
    /** The control plane has a credential for the repository. Hosts of earlier releases use their own. */
    signIn: Type.Optional(Type.Boolean()),
  }),
})
export type BuildPut = Static<typeof BuildPut>

/** Reply to `build.put`. Also published on `subjects.build(...)` on every change. */
export const BuildObserved = Type.Object({
  buildId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['fetching', 'building', 'pushing', 'succeeded', 'failed', 'absent']),
  /** The built image, pinned by digest; null before the push. */
  image: Type.Union([Type.String(), Type.Null()]),
  commit: Type.Union([
    Type.Object({ branch: Type.String(), hash: Type.String(), message: Type.String() }),
    Type.Null(),
  ]),
  /** Reason of the failure, as text for users. */
  error: Type.Union([Type.String(), Type.Null()]),
})
export type BuildObserved = Static<typeof BuildObserved>

/** A building host's request for a part of an uploaded source. */
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
