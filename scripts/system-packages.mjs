// What the programs need from the distribution, and how to get it. With root and apt it is installed; otherwise the one
// command to run is printed.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** `probe`: any of these existing means the package is there. */
const packages = [
  { group: 'vm', name: 'qemu-system-x86', probe: ['qemu-system-x86_64'], why: 'runs the virtual machines' },
  { group: 'vm', name: 'iproute2', probe: ['ip'], why: 'tap devices' },
  { group: 'vm', name: 'nftables', probe: ['nft'], why: 'firewall of the virtual machines' },
  { group: 'vm', name: 'wireguard-tools', probe: ['wg'], why: 'private networks over several hosts' },
  { group: 'vm', name: 'qemu-utils', probe: ['qemu-img'], why: 'encrypted volumes' },
  { group: 'vm', name: 'e2fsprogs', probe: ['mke2fs'], why: 'writable disks' },
  { group: 'build', name: 'musl-tools', probe: ['musl-gcc'], why: 'builds the guest init' },
  { group: 'build', name: 'kmod', probe: ['modprobe'], why: 'finds the modules of the guest kernel' },
  { group: 'build', name: 'xz-utils', probe: ['xz'], why: 'unpacks the guest kernel' },
  { group: 'image', name: 'skopeo', probe: ['skopeo'], why: 'fetches container images' },
  { group: 'image', name: 'umoci', probe: ['umoci'], why: 'unpacks container images' },
  { group: 'image', name: 'erofs-utils', probe: ['mkfs.erofs'], why: 'makes the read-only base of an image' },
  { group: 'image', name: 'git', probe: ['git'], why: 'fetches what is to be built' },
  { group: 'image', name: 'openssh-client', probe: ['ssh'], why: 'fetches what is to be built with a deploy key' },
  { group: 'image', name: 'mmdebstrap', probe: ['mmdebstrap'], why: 'makes the images that apps are built in' },
  { group: 'image', name: 'busybox-static', probe: ['/usr/share/doc/busybox-static'], why: 'the sample app' },
  { group: 'test', name: 'nats-server', probe: ['nats-server'], why: 'the bus suite on a real server' },
  {
    group: 'test',
    name: 'postgresql-15',
    probe: ['/usr/lib/postgresql/15/bin/postgres'],
    why: 'the API suite on PostgreSQL 15',
  },
  {
    group: 'test',
    name: 'wireguard-go',
    probe: ['wireguard-go'],
    why: 'the mesh suite where the kernel has no WireGuard',
  },
  { group: 'test', name: 'pebble', probe: ['pebble'], why: 'a certificate authority for the edge suite' },
  { group: 'test', name: 'haproxy', probe: ['haproxy'], why: 'the edge suite behind a proxy of the site' },
  { group: 'test', name: 'tcpdump', probe: ['tcpdump'], why: 'what the mesh suite sees on the wire' },
  { group: 'test', name: 'btrfs-progs', probe: ['mkfs.btrfs'], why: 'storage pools with reflinks' },
  { group: 'test', name: 'xfsprogs', probe: ['mkfs.xfs'], why: 'storage pools with reflinks' },
  { group: 'test', name: 'zfs-fuse', probe: ['zfs'], why: 'storage pools of ZFS' },
  { group: 'test', name: 'postgresql-client', probe: ['psql'], why: 'databases through their tunnel commands' },
  { group: 'test', name: 'openssh-server', probe: ['sshd'], why: 'a git host that is reached by ssh' },
  { group: 'test', name: 'sshpass', probe: ['sshpass'], why: 'databases through their tunnel commands' },
  { group: 'test', name: 'gnupg', probe: ['gpg'], why: 'a signed repository of packages' },
  { group: 'test', name: 'chromium', probe: ['chromium'], why: 'the dashboard in a real browser' },
  { group: 'test', name: 'docker-registry', probe: ['docker-registry'], why: 'images from a real registry' },
]

const directories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
const present = probe =>
  probe.startsWith('/') ? existsSync(probe) : directories.some(directory => existsSync(`${directory}/${probe}`))

/**
 * Installs what is missing of the groups. With `mandatory` the process ends when something cannot be had; without it the
 * parts that need it say so themselves.
 */
export function ensureSystemPackages(groups, { mandatory }) {
  if (process.platform !== 'linux') return
  const missing = packages.filter(p => groups.includes(p.group) && !p.probe.some(present))
  if (missing.length === 0) return
  const names = missing.map(p => p.name)
  const command = `apt-get update && apt-get install -y --no-install-recommends ${names.join(' ')}`
  const list = missing.map(p => `  ${p.name.padEnd(18)} ${p.why}`).join('\n')
  if (!present('apt-get') || process.getuid() !== 0) {
    process.stderr.write(`These packages are missing:\n${list}\nInstall them with:\n  sudo sh -c '${command}'\n`)
    if (mandatory) process.exit(1)
    return
  }
  const startedMs = Date.now()
  process.stderr.write(`Installing ${names.join(', ')} ... `)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = args => spawnSync('apt-get', args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', env })
  const install = wanted => apt(['install', '-y', '--no-install-recommends', ...wanted])
  apt(['update', '-q'])
  let result = install(names)
  // One package that this distribution does not have must not cost us the others.
  if (result.status !== 0) for (const name of names) install([name])
  const still = missing.filter(p => !p.probe.some(present))
  if (still.length > 0) {
    process.stderr.write(`not all of them\n${still.map(p => `  ${p.name.padEnd(18)} ${p.why}`).join('\n')}\n`)
    if (mandatory) {
      process.stderr.write(`${result.stderr}\nInstall them by hand:\n  ${command}\n`)
      process.exit(1)
    }
    return
  }
  process.stderr.write(`${((Date.now() - startedMs) / 1000).toFixed(1)} s\n`)
}
