/**
 * Settings of the programs: addresses, directories and connections. Each is a flag and an environment variable; the
 * flag takes precedence. `mote up --help` and docs/operating.md show this table.
 */
export interface ProgramSetting {
  readonly flag: string
  readonly env: string
  readonly fallback: string
  readonly help: string
}

export const programSettings = {
  data: { flag: '--data <dir>', env: 'MOTE_DATA', fallback: '.mote', help: 'data directory' },
  port: { flag: '--port <port>', env: 'MOTE_PORT', fallback: '7070', help: 'port of the API' },
  gatewayPort: {
    flag: '--gateway-port <port>',
    env: 'MOTE_GATEWAY_PORT',
    fallback: '7080',
    help: 'port of the gateway',
  },
  sshPort: {
    flag: '--ssh-port <port>',
    env: 'MOTE_SSH_PORT',
    fallback: '7022',
    help: 'port of the SSH bastion of the gateway, for shells in VMs and tunnels to databases; none when empty',
  },
  registryPort: {
    flag: '--registry-port <port>',
    env: 'MOTE_REGISTRY_PORT',
    fallback: 'auto',
    help: 'port of the image registry of this installation; auto: 7050 if docker-registry is installed, unless MOTE_REGISTRY_URL or MOTE_REGISTRY is set; none when empty',
  },
  metricsPort: {
    flag: '--metrics-port <port>',
    env: 'MOTE_METRICS_PORT',
    fallback: '',
    help: 'port of Prometheus /metrics on loopback; none when empty',
  },
  listen: {
    flag: '--listen <address>',
    env: 'MOTE_LISTEN',
    fallback: '127.0.0.1',
    help: 'address of the API and the gateway; 0.0.0.0 for all',
  },
  hypervisor: {
    flag: '--hypervisor <name>',
    env: 'MOTE_HYPERVISOR',
    fallback: 'auto',
    help: 'hypervisor of the VMs: auto (all that work on this host), qemu, firecracker, cloud-hypervisor, gvisor or fake (simulated VMs)',
  },
  network: {
    flag: '--network <mode>',
    env: 'MOTE_NETWORK',
    fallback: 'auto',
    help: 'network of the VMs: auto, tap (needs root) or user',
  },
  hostName: {
    flag: '--host-name <name>',
    env: 'MOTE_HOST_NAME',
    fallback: '',
    help: 'name of this host; when empty, the host name of the operating system',
  },
  hostId: {
    flag: '--host-id <uuid>',
    env: 'MOTE_HOST_ID',
    fallback: '',
    help: 'id of this host from mote host add; created at the first start when empty',
  },
  migrationHost: {
    flag: '--migration-host <address>',
    env: 'MOTE_MIGRATION_HOST',
    fallback: '127.0.0.1',
    help: 'address at which other hosts reach this host for live migration; in a mesh, the default is the mesh address (without a mesh, migration is not encrypted: use a private network)',
  },
  meshEndpoint: {
    flag: '--mesh-endpoint <address:port>',
    env: 'MOTE_MESH_ENDPOINT',
    fallback: '',
    help: 'address and UDP port at which other hosts reach this host in the mesh, through which private networks span hosts; when empty, the host is not in the mesh',
  },
  guestSubnet: {
    flag: '--guest-subnet <network>',
    env: 'MOTE_GUEST_SUBNET',
    fallback: '',
    help: 'IPv4 network (/16) of the VMs on this host, without overlap with the networks of other hosts in the mesh; when empty, a /20 of 10.213.0.0/16 or, in a mesh, the network that the control plane assigns (MOTE_GUEST_NETWORK)',
  },
  labels: {
    flag: '--labels <labels>',
    env: 'MOTE_LABELS',
    fallback: '',
    help: 'labels of this host, comma-separated, such as region=eu,disk=nvme; apps can require or prefer the labels that MOTE_PUBLIC_LABELS names; none when empty',
  },
  egressAllow: {
    flag: '--egress-allow <networks>',
    env: 'MOTE_EGRESS_ALLOW',
    fallback: '',
    help: 'private IPv4 networks (CIDR, comma-separated) that VMs may reach; none when empty',
  },
  egressDeny: {
    flag: '--egress-deny <networks>',
    env: 'MOTE_EGRESS_DENY',
    fallback: '',
    help: 'networks (CIDR, comma-separated) that no VM may reach, besides all private ones',
  },
  guestConnections: {
    flag: '--guest-connections <count>',
    env: 'MOTE_GUEST_CONNECTIONS',
    fallback: '8192',
    help: 'connections that one VM may have open at once, in each direction (a changed limit applies to a VM once its open connections are closed)',
  },
  guestNewConnections: {
    flag: '--guest-new-connections <count>',
    env: 'MOTE_GUEST_NEW_CONNECTIONS',
    fallback: '1000',
    help: 'new connections per second of one VM, in each direction',
  },
  guestPackets: {
    flag: '--guest-packets <count>',
    env: 'MOTE_GUEST_PACKETS',
    fallback: '100000',
    help: 'packets per second of one VM, in each direction',
  },
  guestTrafficMib: {
    flag: '--guest-traffic-mib <MiB>',
    env: 'MOTE_GUEST_TRAFFIC_MIB',
    fallback: '256',
    help: 'traffic per second of one VM, in each direction, 1 to 2048 MiB',
  },
  guestDnsQueries: {
    flag: '--guest-dns-queries <count>',
    env: 'MOTE_GUEST_DNS_QUERIES',
    fallback: '500',
    help: 'DNS queries per second of one VM',
  },
  guestDiskMib: {
    flag: '--guest-disk-mib <MiB>',
    env: 'MOTE_GUEST_DISK_MIB',
    fallback: '400',
    help: 'data read and written per second on each disk of a VM (QEMU; 400 on the other hypervisors)',
  },
  guestDiskOperations: {
    flag: '--guest-disk-operations <count>',
    env: 'MOTE_GUEST_DISK_OPERATIONS',
    fallback: '20000',
    help: 'reads and writes per second on each disk of a VM (QEMU; 20000 on the other hypervisors)',
  },
  privateRegistries: {
    flag: '--private-registries <hosts>',
    env: 'MOTE_PRIVATE_REGISTRIES',
    fallback: '',
    help: 'registries at private addresses that images may come from: host[:port], comma-separated; http://host:port without TLS; user:password@host:port signs in, but only for images that Mote has built; append #<project id>+<project id> to sign in for images of these projects too, or #* for those of all projects',
  },
  firecrackerBin: {
    flag: '--firecracker-bin <file>',
    env: 'MOTE_FIRECRACKER_BIN',
    fallback: '',
    help: 'the firecracker program; found on the PATH when empty',
  },
  jailerBin: {
    flag: '--jailer-bin <file>',
    env: 'MOTE_JAILER_BIN',
    fallback: '',
    help: "Firecracker's jailer, of the same version; found on the PATH when empty",
  },
  cloudHypervisorBin: {
    flag: '--cloud-hypervisor-bin <file>',
    env: 'MOTE_CLOUD_HYPERVISOR_BIN',
    fallback: '',
    help: 'the cloud-hypervisor program; found on the PATH when empty',
  },
  runscBin: {
    flag: '--runsc-bin <file>',
    env: 'MOTE_RUNSC_BIN',
    fallback: '',
    help: "gVisor's runsc; when empty, the one that `mote runsc install` installed, or the one on the PATH",
  },
  buildCa: {
    flag: '--build-ca <file>',
    env: 'MOTE_BUILD_CA',
    fallback: '',
    help: 'PEM file of certificate authorities that builds trust besides the public ones, for a proxy that inspects TLS; when empty, the authorities that were added to this host (/usr/local/share/ca-certificates)',
  },
  pools: {
    flag: '--pools <list>',
    env: 'MOTE_POOLS',
    fallback: 'local=dir',
    help: 'pools for volumes, a list of name=kind:place: dir:/path, dir-luks:/path, lvm-thin:group/thin-pool, zfs:pool/dataset, rbd:pool@client',
  },
  cache: {
    flag: '--cache <dir>',
    env: 'MOTE_CACHE',
    fallback: '',
    help: 'cache directory for kernels and images; ~/.cache/mote when empty',
  },
  kernel: {
    flag: '--kernel <choice>',
    env: 'MOTE_KERNEL',
    fallback: 'shipped',
    help: "kernel of the VMs: shipped (the one that comes with Mote), distribution (the host's packaged one), or a directory with vmlinux",
  },
  templateMib: {
    flag: '--template-mib <MiB>',
    env: 'MOTE_TEMPLATE_MIB',
    fallback: '4096',
    help: 'disk space for VM templates in the cache, from which VMs of the same image start without a boot; 0: every VM boots',
  },
  baseMib: {
    flag: '--base-mib <MiB>',
    env: 'MOTE_BASE_MIB',
    fallback: '10240',
    help: 'disk space for unpacked images in the cache; images that a VM or snapshot on this host needs are never removed',
  },
  toolchainMib: {
    flag: '--toolchain-mib <MiB>',
    env: 'MOTE_TOOLCHAIN_MIB',
    fallback: '4096',
    help: 'disk space in the cache for archives of Node, Go, Rust and others, which builds use without a download; 0: each app downloads its own',
  },
  databaseUrl: {
    flag: '--database-url <url>',
    env: 'DATABASE_URL',
    fallback: '',
    help: 'URL of your PostgreSQL (15 or newer), instead of the private server',
  },
  natsUrl: {
    flag: '--nats-url <url>',
    env: 'NATS_URL',
    fallback: '',
    help: 'URL of your NATS server with JetStream, instead of the in-process bus',
  },
  busMib: {
    flag: '--bus-mib <MiB>',
    env: 'MOTE_BUS_MIB',
    fallback: '64',
    help: 'memory for log lines of the last day in the in-process bus, 1 to 1024; the oldest are dropped first',
  },
  logDays: {
    flag: '--log-days <days>',
    env: 'MOTE_LOG_DAYS',
    fallback: '7',
    help: 'days until log lines of apps are removed, 1 to 365',
  },
  logAppMib: {
    flag: '--log-app-mib <MiB>',
    env: 'MOTE_LOG_APP_MIB',
    fallback: '64',
    help: 'disk space of a host for the log lines of removed VMs of one app; the oldest are removed first',
  },
  logHostMib: {
    flag: '--log-host-mib <MiB>',
    env: 'MOTE_LOG_HOST_MIB',
    fallback: '4096',
    help: 'disk space of a host for the log lines of all removed VMs',
  },
  logLevel: {
    flag: '--log-level <level>',
    env: 'MOTE_LOG_LEVEL',
    fallback: 'info',
    help: 'lowest level of log lines that are written: debug, info, warn or error',
  },
} as const satisfies Record<string, ProgramSetting>

export type ProgramSettingName = keyof typeof programSettings
export type ProgramSettings = { readonly [K in ProgramSettingName]: string }

/**
 * Returns all settings: from flags, otherwise from environment variables, otherwise the defaults.
 * @param flags from the command line, by setting name
 */
export function readSettings(
  flags: Readonly<Partial<Record<ProgramSettingName, string | undefined>>>,
  env: Readonly<Record<string, string | undefined>>,
): ProgramSettings {
  const entries = Object.entries(programSettings).map(([name, setting]) => [
    name,
    flags[name as ProgramSettingName] ?? env[setting.env] ?? setting.fallback,
  ])
  return Object.freeze(Object.fromEntries(entries))
}

/** Parses a port. @throws Error naming the setting */
export function portOf(setting: ProgramSetting, value: string): number {
  const port = Number(value)
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new Error(`${setting.env} (${setting.flag}): "${value}" is not a port from 0 to 65535`)
  return port
}

/** Parses a whole number of MiB. @throws Error naming the setting */
export function mebibytesOf(setting: ProgramSetting, value: string): number {
  if (/^\d{1,9}$/.test(value)) return Number(value)
  throw new Error(`${setting.env} (${setting.flag}): "${value}" is not a whole number of MiB`)
}

/** Parses a whole number of at least 1. @throws Error naming the setting */
export function limitOf(setting: ProgramSetting, value: string, most = 999_999_999): number {
  if (/^\d{1,9}$/.test(value) && Number(value) >= 1 && Number(value) <= most) return Number(value)
  throw new Error(`${setting.env} (${setting.flag}): "${value}" is not a number from 1 to ${most}`)
}
