/** The configuration that guest/init.c reads from the config disk. */
export interface GuestConfig {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Files that the guest writes before it starts a program. */
  readonly files?: readonly GivenFile[]
  /** Further programs that run next to the main program `argv`. Each has its complete environment. */
  readonly programs?: readonly GuestProgram[]
  /** Hostnames that resolve to the VM itself. */
  readonly aliases?: readonly string[]
  /** Symbolic links that the guest creates before it starts a program. */
  readonly links?: readonly GuestLink[]
  readonly cwd: string
  readonly uid: number
  readonly gid: number
  readonly groups: readonly number[]
  readonly stopSignal: number
  readonly hostname: string
  /** machine-id(5), 32 hexadecimal digits. */
  readonly machineId: string
  readonly baseType: 'erofs' | 'ext4'
  readonly network: GuestNetwork
  /** True if the guest starts the workload only when the host sends `start`, after it has attached the volumes. */
  readonly wait: boolean
  /** Channel between guest and host; default: virtio-serial. */
  readonly ports?: 'vsock'
}

export interface GivenFile {
  readonly path: string
  readonly mode: number
  /** Base64. */
  readonly data: string
}

export interface GuestProgram {
  readonly name: string
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly restart: 'always' | 'on-failure' | 'never'
  /** True if the guest runs this program before the main program, which only starts if this one succeeds. */
  readonly before: boolean
}

export interface GuestLink {
  readonly path: string
  readonly to: string
}

export interface GuestNetwork {
  readonly ip: string
  readonly prefix: number
  readonly gateway: string
  readonly gatewayMac?: string
  readonly dns?: string
  /**
   * IPv6 address of the VM in the project's network (a /128); `gateway6` and `route6` lead to the project's other VMs.
   */
  readonly ip6?: string
  readonly gateway6?: string
  readonly route6?: string
}

const blockBytes = 4096
/** Size of the config disk, and the maximum that the guest reads (CONFIG_MAX in guest/mote.h). */
export const configBytes = 1 << 20

/**
 * Returns the content of the config disk: `key=value` lines, padded with NUL. Bytes that would break a line are
 * percent-encoded.
 * @throws Error if the content is larger than the guest reads.
 */
export function configDisk(config: GuestConfig): Buffer {
  const { network } = config
  const pairs: Array<readonly [string, string | number | undefined]> = [
    ...config.argv.map(arg => ['arg', arg] as const),
    ...Object.entries(config.env).map(([name, value]) => ['env', `${name}=${value}`] as const),
    ...config.groups.map(group => ['group', group] as const),
    ...(config.files ?? []).map(({ path, mode, data }) => ['file', `${mode.toString(8)} ${data} ${path}`] as const),
    ...(config.aliases ?? []).map(name => ['alias', name] as const),
    ...(config.programs ?? []).flatMap(programLines),
    ...(config.links ?? []).flatMap(({ path, to }) => [
      ['program_link', path] as const,
      ['program_link_to', to] as const,
    ]),
    ['uid', config.uid],
    ['gid', config.gid],
    ['cwd', config.cwd],
    ['stop_signal', config.stopSignal],
    ['hostname', config.hostname],
    ['machine_id', config.machineId],
    ['base', config.baseType],
    ['wait', config.wait ? 1 : undefined],
    ['ports', config.ports],
    ['ip', network.ip],
    ['prefix', network.prefix],
    ['gateway', network.gateway],
    ['gateway_mac', network.gatewayMac],
    ['dns', network.dns],
    ['ip6', network.ip6],
    ['gateway6', network.gateway6],
    ['route6', network.route6],
  ]
  const lines = pairs
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${encode(String(value))}\n`)
  const text = Buffer.from(lines.join(''))
  if (text.length > configBytes)
    throw new Error(`environment, command and files need ${text.length} bytes, at most ${configBytes} fit`)
  return Buffer.concat([text, Buffer.alloc((blockBytes - (text.length % blockBytes)) % blockBytes)])
}

const programLines = ({ name, argv, env, restart, before }: GuestProgram) => [
  ['program', name] as const,
  ...argv.map(arg => ['program_arg', arg] as const),
  ...Object.entries(env).map(([key, value]) => ['program_env', `${key}=${value}`] as const),
  ['program_restart', restart] as const,
  ['program_before', before ? 1 : 0] as const,
]

function encode(value: string): string {
  return value.replace(/[%\n\0]/g, char => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`)
}
