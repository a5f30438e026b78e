/** Messages about builds of images and their sources. */
import { type Static, Type } from 'typebox'
import { HypervisorName } from './vm.ts'

/** What a build gets besides the source. The host neither stores the values nor writes them into its logs. */
export const BuildInputs = Type.Object({
  /**
   * Path of the Dockerfile in the source; empty: `Dockerfile` or `Containerfile` in the top directory, if there is one.
   */
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
 * Request of `build.put`: builds an image from a source in a temporary VM on this host. Control repeats the request
 * with the same generation until the build ends, so a restarted agent starts the build again. `absent` cancels the
 * build and removes everything but its log.
 */
export const BuildPut = Type.Object({
  buildId: Type.String(),
  /** The host refuses a generation below the newest one that it has received, with code `stale_generation`. */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  spec: Type.Object({
    projectId: Type.String(),
    appId: Type.String(),
    deploymentId: Type.String(),
    hypervisor: HypervisorName,
    source: Type.Object({
      /**
       * Identifies an archive that was uploaded to the control plane as the source, by its SHA-256 (hexadecimal). Then
       * `url` is empty.
       */
      upload: Type.Optional(Type.String()),
      /** URL of the repository: http(s), or with `ssh` also `ssh://` and `user@host:path`. */
      url: Type.String(),
      /** Branch to build; empty: the repository's default branch. */
      branch: Type.String(),
      /** Full id of the commit to build; empty: the newest commit of the branch. */
      commit: Type.String(),
      /**
       * User name and password for HTTP basic authentication at the repository. The host neither stores them nor passes
       * them to the VM.
       */
      auth: Type.Optional(Type.Object({ username: Type.String(), password: Type.String() })),
      /**
       * A deploy key (OpenSSH format), and the host keys of the repository's server (sshd(8), known_hosts). The host
       * neither stores them nor passes them to the VM.
       */
      ssh: Type.Optional(Type.Object({ privateKey: Type.String(), knownHosts: Type.String() })),
      /** Whether to fetch submodules, too. Only those on the same server are fetched. */
      submodules: Type.Optional(Type.Boolean()),
      /** Whether the repository may have a private address and be fetched without TLS. */
      allowPrivate: Type.Boolean(),
    }),
    vcpus: Type.Integer({ minimum: 1 }),
    memoryMib: Type.Integer({ minimum: 64 }),
    diskMib: Type.Integer({ minimum: 64 }),
    timeLimitMs: Type.Integer({ minimum: 1 }),
    /**
     * Settings of the build; absent: the build method is detected from the source files. Hosts of earlier releases
     * ignore them.
     */
    settings: Type.Optional(BuildInputs),
    /**
     * Registry and repository to which the image is pushed; null: the host stores it as an OCI layout in its image
     * directory.
     */
    repository: Type.Union([Type.String(), Type.Null()]),
    /**
     * Whether the control plane has a credential for that repository, which the host requests. Hosts of earlier
     * releases use their own.
     */
    signIn: Type.Optional(Type.Boolean()),
  }),
})
export type BuildPut = Static<typeof BuildPut>

/**
 * The state of a build, as reported by its host: the reply to `build.put`, also published on `subjects.build(...)` on
 * every change.
 */
export const BuildObserved = Type.Object({
  buildId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['fetching', 'building', 'pushing', 'succeeded', 'failed', 'absent']),
  /** The built image, pinned by digest; null until it was pushed. */
  image: Type.Union([Type.String(), Type.Null()]),
  commit: Type.Union([
    Type.Object({ branch: Type.String(), hash: Type.String(), message: Type.String() }),
    Type.Null(),
  ]),
  /** Reason why the build failed, as text for users; null if it did not. */
  error: Type.Union([Type.String(), Type.Null()]),
})
export type BuildObserved = Static<typeof BuildObserved>

/** A request of a building host for a part of an uploaded source. */
export const SourceRequest = Type.Object({
  buildId: Type.String(),
  offset: Type.Integer({ minimum: 0 }),
})
export type SourceRequest = Static<typeof SourceRequest>

export const SourcePart = Type.Object({
  /** A part of the archive, in base64; at most 512 KiB before encoding. */
  data: Type.String(),
  sizeBytes: Type.Integer(),
})
export type SourcePart = Static<typeof SourcePart>
