/** The keys of a service in a compose file, grouped by how they are handled. Any other key is unknown. */

/** Keys that become settings of the app. */
export const mapped = [
  ...['image', 'build', 'command', 'entrypoint', 'environment', 'env_file', 'ports', 'expose', 'volumes', 'tmpfs'],
  'volumes_from',
  ...['depends_on', 'healthcheck', 'deploy', 'scale', 'cpus', 'mem_limit', 'mem_reservation', 'restart', 'profiles'],
  ...['extends', 'networks', 'network_mode', 'configs', 'secrets', 'platform', 'stop_grace_period', 'x-mote'],
] as const

/** Keys that are ignored without a report, because they do not matter for a service with its own VMs. */
export const harmless = [
  ...['labels', 'label_file', 'annotations', 'container_name', 'logging', 'stdin_open', 'tty', 'init', 'pull_policy'],
  ...[
    'stop_signal',
    'attach',
    'develop',
    'cgroup',
    'cgroup_parent',
    'oom_kill_disable',
    'oom_score_adj',
    'blkio_config',
  ],
  ...['cpu_count', 'cpu_percent', 'cpu_shares', 'cpu_period', 'cpu_quota', 'cpu_rt_period', 'cpu_rt_runtime', 'cpuset'],
  ...[
    'mem_swappiness',
    'memswap_limit',
    'pids_limit',
    'mac_address',
    'ulimits',
    'storage_opt',
    'shm_size',
    'security_opt',
  ],
  ...['cap_drop', 'read_only', 'userns_mode', 'uts', 'isolation', 'external_links', 'pull_refresh_after'],
  // A key that only Coolify defines.
  'exclude_from_hc',
] as const

/** Keys that are ignored, with the reason that is reported to the user. */
export const different: Readonly<Record<string, string>> = {
  user: 'is ignored: the program runs as the user of the image',
  working_dir: 'is ignored: the program starts in the directory of the image',
  hostname: 'is ignored: the host name in the VM is the name of the app',
  domainname: 'is ignored',
  dns: 'is ignored: the host of the VM resolves names',
  dns_search: 'is ignored: the host of the VM resolves names',
  dns_opt: 'is ignored: the host of the VM resolves names',
  extra_hosts: 'is ignored: names cannot be added to a VM',
  links: 'is ignored: services reach each other by their names',
  group_add: 'is ignored: the program has the groups of the image',
  cap_add: 'is ignored: the service has a kernel of its own, and the rights of the user of the image',
  privileged: 'is ignored: the service has a kernel of its own, and the rights of the user of the image',
  sysctls: 'is ignored: settings of the kernel cannot be changed',
  runtime: 'is ignored: the hosts choose how VMs run',
}

/** Keys that are not supported, with the reason that is reported to the user. */
export const impossible: Readonly<Record<string, string>> = {
  devices: 'is not supported: VMs have no devices of the host',
  device_cgroup_rules: 'is not supported: VMs have no devices of the host',
  gpus: 'is not supported: VMs have no GPUs',
  pid: 'is not supported: services do not share processes',
  ipc: 'is not supported: services do not share memory',
  credential_spec: 'is not supported',
  provider: 'is not supported',
  models: 'is not supported',
  post_start: 'is not supported: let a script do it that then starts the program',
  pre_stop: 'is not supported: handle SIGTERM in the program',
  use_api_socket: 'is not supported: there is no Docker in the VMs',
}

export const allKeys: readonly string[] = [
  ...mapped,
  ...harmless,
  ...Object.keys(different),
  ...Object.keys(impossible),
]

/** Well-known ports of other protocols than HTTP. A service that only publishes such ports gets no HTTP requests. */
export const otherProtocols: ReadonlySet<number> = new Set([
  ...[21, 22, 25, 53, 110, 123, 143, 161, 389, 465, 514, 587, 636, 993, 995, 1433, 1521, 1883, 2181, 2222, 3306, 3389],
  ...[4222, 4369, 5060, 5432, 5433, 5671, 5672, 6222, 6379, 6380, 6432, 6443, 7000, 7687, 8883, 9042, 9092, 9093, 9094],
  ...[9300, 11_211, 21_115, 21_116, 21_117, 25_672, 26_257, 27_017, 27_018, 33_060, 50_051, 61_616],
])
