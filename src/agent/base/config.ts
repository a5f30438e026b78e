import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { homeDir } from '../../lib/home.ts'
import { labelNamePattern, labelValuePattern } from '../../lib/labels.ts'
import { defaultPools, PoolConfig } from './pool-config.ts'
import { defaultDiskLimits, DiskLimits } from './disk-limits.ts'
import { RegistryConfig } from './registry-config.ts'
import { defaultLimits } from './network-limits.ts'

export const AgentConfig = Type.Object({
  /** Data directory with this agent's VMs and host id. Each agent needs its own. */
  dataDir: Type.String({ minLength: 1 }),
  /** Cache directory for the kernel, init and image bases. The agents of one host may share it. */
  cacheDir: Type.String({ minLength: 1 }),
  /** Directory of the OCI image layouts to which `oci:<name>` references refer. */
  imageDir: Type.String({ minLength: 1 }),
  hostName: Type.String({ minLength: 1 }),
  /** Id that `mote host add` has assigned to the host. Null: the agent generates one at its first start. */
  hostId: Type.Union([Type.String({ format: 'uuid' }), Type.Null()]),
  /** `auto`: all hypervisors that are installed. Otherwise only the named one; `fake` simulates VMs. */
  hypervisor: Type.Enum(['auto', 'qemu', 'firecracker', 'cloud-hypervisor', 'gvisor', 'fake']),
  /** Paths of the hypervisors' programs. Null: the agent searches the PATH. */
  programs: Type.Object({
    firecracker: Type.Union([Type.String(), Type.Null()]),
    jailer: Type.Union([Type.String(), Type.Null()]),
    cloudHypervisor: Type.Union([Type.String(), Type.Null()]),
    runsc: Type.Union([Type.String(), Type.Null()]),
  }),
  /** `auto`: taps with root and /dev/net/tun, QEMU's user networking otherwise. */
  network: Type.Union([Type.Literal('auto'), Type.Literal('tap'), Type.Literal('user')]),
  /**
   * IPv4 /16 for guests behind taps. The agents of one host share it, one /20 each. Null: in a mesh the agent uses the
   * /20 that the control plane assigns to the host, otherwise a /20 of the default range `firstGuests`.
   */
  subnet: Type.Union([Type.String({ pattern: '^\\d{1,3}\\.\\d{1,3}\\.0\\.0/16$' }), Type.Null()]),
  /** Private networks (IPv4 CIDR) that guests may reach. They may reach no other private network. */
  egressAllow: Type.Array(Type.String()),
  /** Networks (CIDR) that no guest may reach, in addition to all private ones. */
  egressDeny: Type.Array(Type.String()),
  /** Limits on one guest's use of its host's network; see `GuestLimits`. */
  guestLimits: Type.Object({
    connections: Type.Integer({ minimum: 1 }),
    newConnections: Type.Integer({ minimum: 1 }),
    packets: Type.Integer({ minimum: 1 }),
    mibPerSecond: Type.Integer({ minimum: 1, maximum: 2048 }),
    nameQueries: Type.Integer({ minimum: 1 }),
  }),
  /** I/O limits for each disk of a VM. */
  diskLimits: DiskLimits,
  /**
   * `address:port` (UDP) on which other hosts reach this one, so that private networks span hosts. Null: private
   * networks stay within this host.
   */
  meshEndpoint: Type.Union([Type.String(), Type.Null()]),
  /** Days until this host replaces its mesh key. */
  meshKeyDays: Type.Number({ exclusiveMinimum: 0 }),
  /** Labels of the host, such as `region`, by which apps choose hosts. */
  labels: Type.Record(Type.String({ pattern: labelNamePattern }), Type.String({ pattern: labelValuePattern })),
  /** The guests' kernel: `shipped`, `distribution`, or a directory with `vmlinux` (and `modules/`). */
  kernel: Type.String({ minLength: 1 }),
  /** PEM file with the certificate authorities that builds trust. Null: builds trust those added to this host. */
  buildCa: Type.Union([Type.String(), Type.Null()]),
  registries: Type.Array(RegistryConfig),
  maxImageMib: Type.Integer({ minimum: 1 }),
  /** Storage pools for volumes. */
  pools: Type.Array(PoolConfig),
  log: Type.Object({
    maxBytes: Type.Integer({ minimum: 4096 }),
    linesPerSecond: Type.Integer({ minimum: 1 }),
    bytesPerSecond: Type.Integer({ minimum: 1024 }),
  }),
  /** Limits on the retained logs of removed VMs: age, and disk space for each app and for the whole host. */
  logRetention: Type.Object({
    maxAgeMs: Type.Integer({ minimum: 1 }),
    appBytes: Type.Integer({ minimum: 4096 }),
    hostBytes: Type.Integer({ minimum: 4096 }),
  }),
  /** Capacity that the host offers for VMs. Null: the capacity that the agent has measured. */
  capacity: Type.Object({
    vcpus: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
    memoryMib: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
    diskMib: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  }),
  /** Limit on the VM templates in the cache directory, from which identical VMs start; 0: every VM boots. */
  templateMib: Type.Integer({ minimum: 0 }),
  /** Limit on the unpacked images in the cache directory. An image that a VM or snapshot needs is never evicted. */
  baseMib: Type.Integer({ minimum: 0 }),
  /** Limit on the archives of toolchains for builds in the cache directory; 0: each build downloads its own. */
  toolchainMib: Type.Integer({ minimum: 0 }),
  /** Maximum number of concurrent boots; null: twice the CPUs. */
  maxBoots: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  /** The address on which this host receives VMs from other hosts. Only those hosts may be able to reach it. */
  migrationHost: Type.String({ minLength: 1 }),
  /** Time after which a guest that has not started its workload counts as hung. */
  bootLimitMs: Type.Integer({ minimum: 1 }),
  /** Time that a workload has to exit after its stop signal. */
  stopGraceMs: Type.Integer({ minimum: 0 }),
  /** Durations of the fake hypervisor's simulated steps; other hypervisors ignore them. */
  fake: Type.Object({
    imageMs: Type.Integer({ minimum: 0 }),
    bootMs: Type.Integer({ minimum: 0 }),
    healthyMs: Type.Integer({ minimum: 0 }),
    stopMs: Type.Integer({ minimum: 0 }),
    logEveryMs: Type.Integer({ minimum: 0 }),
    /** How long a migration copies data before the guest is paused. */
    copyMs: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
})
export type AgentConfig = Readonly<Static<typeof AgentConfig>>

/** Returns all settings of an agent; a setting that is not given has its default value. */
export function agentConfig(given: Partial<AgentConfig> & Pick<AgentConfig, 'dataDir' | 'hostName'>): AgentConfig {
  return Object.freeze({
    cacheDir: join(homeDir(), '.cache', 'mote'),
    imageDir: join(given.dataDir, 'images'),
    hostId: null,
    hypervisor: 'auto',
    programs: { firecracker: null, jailer: null, cloudHypervisor: null, runsc: null },
    network: 'auto',
    subnet: null,
    egressAllow: [],
    egressDeny: [],
    guestLimits: defaultLimits,
    diskLimits: defaultDiskLimits,
    meshEndpoint: null,
    meshKeyDays: 30,
    labels: {},
    kernel: 'shipped',
    buildCa: null,
    registries: [],
    maxImageMib: 8192,
    pools: defaultPools,
    log: { maxBytes: 8 << 20, linesPerSecond: 1000, bytesPerSecond: 1 << 20 },
    logRetention: { maxAgeMs: 7 * 24 * 3_600_000, appBytes: 64 << 20, hostBytes: 4 * 2 ** 30 },
    capacity: { vcpus: null, memoryMib: null, diskMib: null },
    templateMib: 4096,
    baseMib: 10_240,
    toolchainMib: 4096,
    maxBoots: null,
    migrationHost: '127.0.0.1',
    bootLimitMs: 90_000,
    stopGraceMs: 10_000,
    fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 },
    ...given,
  })
}
