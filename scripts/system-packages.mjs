// The distribution packages that the programs need, and their installation: with apt as root or through sudo; otherwise
// prints the command to run. Plain JavaScript: see bootstrap.mjs.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { Failure, program, reasonOf, step } from './step.mjs'

/**
 * `probe`: the package counts as installed if any of these files exists. `needed`: virtual machines cannot run without
 * the package. The other packages are optional: a feature that needs a missing one fails with an error that names it.
 */
export const packages = [
  {
    group: 'vm',
    name: 'qemu-system-x86',
    probe: ['qemu-system-x86_64'],
    why: 'runs the virtual machines',
    needed: true,
  },
  { group: 'vm', name: 'iproute2', probe: ['ip'], why: 'tap devices' },
  { group: 'vm', name: 'nftables', probe: ['nft'], why: 'firewall of the virtual machines' },
  { group: 'vm', name: 'wireguard-tools', probe: ['wg'], why: 'private networks over several hosts' },
  { group: 'vm', name: 'qemu-utils', probe: ['qemu-img'], why: 'encrypted volumes' },
  { group: 'vm', name: 'e2fsprogs', probe: ['mke2fs'], why: 'writable disks of the virtual machines', needed: true },
  { group: 'vm', name: 'gcc', probe: ['gcc'], why: 'compiles the init program of the virtual machines', needed: true },
  // The C library's headers are listed because gcc and musl-tools only recommend them, although they need them to
  // compile programs.
  {
    group: 'vm',
    name: 'libc6-dev',
    probe: ['/usr/include/stdio.h'],
    why: 'compiles small host programs',
    needed: true,
  },
  { group: 'vm', name: 'musl-tools', probe: ['musl-gcc'], why: 'makes that init program small' },
  { group: 'image', name: 'skopeo', probe: ['skopeo'], why: 'fetches container images' },
  { group: 'image', name: 'umoci', probe: ['umoci'], why: 'unpacks container images', needed: true },
  { group: 'image', name: 'erofs-utils', probe: ['mkfs.erofs'], why: 'makes the read-only base of an image' },
  { group: 'image', name: 'git', probe: ['git'], why: 'fetches repositories to build' },
  { group: 'image', name: 'openssh-client', probe: ['ssh'], why: 'fetches repositories to build with a deploy key' },
  { group: 'image', name: 'mmdebstrap', probe: ['mmdebstrap'], why: 'makes the images that apps are built in' },
  {
    group: 'image',
    name: 'busybox-static',
    probe: ['/usr/share/doc/busybox-static'],
    why: 'the sample app',
    needed: true,
  },
  { group: 'test', name: 'nats-server', probe: ['nats-server'], why: 'the bus suite on a real server' },
  {
    group: 'test',
    name: 'postgresql',
    probe: [15, 16, 17, 18].map(major => `/usr/lib/postgresql/${major}/bin/postgres`),
    why: 'migrations, the engine and every statement on the PostgreSQL of the distribution',
  },
  {
    group: 'test',
    name: 'wireguard-go',
    probe: ['wireguard-go'],
    why: 'the mesh suite where the kernel has no WireGuard',
  },
  { group: 'test', name: 'pebble', probe: ['pebble'], why: 'a certificate authority for the edge suite' },
  { group: 'test', name: 'haproxy', probe: ['haproxy'], why: 'the edge suite behind an external proxy' },
  { group: 'test', name: 'tcpdump', probe: ['tcpdump'], why: 'packet captures of the mesh suite' },
  { group: 'test', name: 'btrfs-progs', probe: ['mkfs.btrfs'], why: 'storage pools with reflinks' },
  { group: 'test', name: 'xfsprogs', probe: ['mkfs.xfs'], why: 'storage pools with reflinks' },
  { group: 'test', name: 'zfs-fuse', probe: ['zfs'], why: 'ZFS storage pools' },
  { group: 'test', name: 'postgresql-client', probe: ['psql'], why: 'databases through their tunnel commands' },
  { group: 'test', name: 'openssh-server', probe: ['sshd'], why: 'a git host that is reached by ssh' },
  { group: 'test', name: 'rsync', probe: ['rsync'], why: 'files of VMs over OpenSSH' },
  { group: 'test', name: 'sshpass', probe: ['sshpass'], why: 'databases through their tunnel commands' },
  { group: 'test', name: 'gnupg', probe: ['gpg'], why: 'a signed package repository' },
  { group: 'test', name: 'chromium', probe: ['chromium'], why: 'the dashboard in a real browser' },
  {
    group: 'registry',
    name: 'docker-registry',
    probe: ['docker-registry'],
    why: 'the registry of the installation, which images are pushed to',
    // Mask the service `docker-registry` before the installation: Debian would start it on port 5000, open to everyone
    // and without a password.
    service: 'docker-registry.service',
  },
]

const directories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
const present = probe =>
  probe.startsWith('/') ? existsSync(probe) : directories.some(directory => existsSync(`${directory}/${probe}`))
const isMissing = ({ probe }) => !probe.some(present)

/**
 * Installs missing packages of the groups. With `mandatory` it fails if virtual machines cannot run without a missing
 * package; otherwise it prints the missing packages and returns. With `quiet` it installs what it can and prints
 * nothing about packages that it cannot install.
 * @throws Failure that names the packages and the command to run
 */
export async function ensureSystemPackages(groups, { mandatory = false, quiet = false } = {}) {
  if (process.platform !== 'linux') {
    if (mandatory) throw new Failure(notLinux)
    return
  }
  const missing = packages.filter(one => groups.includes(one.group) && isMissing(one))
  if (missing.length === 0) return
  const asRoot = present('apt-get') ? rootCommand() : undefined
  if (asRoot === undefined) return quiet ? undefined : reportMissing(missing, mandatory)
  const output = await install(
    asRoot,
    missing.map(({ name }) => name),
  )
  const still = missing.filter(isMissing)
  if (still.length > 0 && !quiet) reportMissing(still, mandatory, output)
}

const notLinux = `Virtual machines need Linux; this is ${process.platform}. What works here: the command line ("bin/mote login --url <address of a Mote>") and a cloud of simulated machines ("npm start -- --hypervisor fake").`

/** Returns the command prefix that runs a command as root without a password prompt, or undefined if there is none. */
function rootCommand() {
  if (process.getuid() === 0) return []
  const sudo = spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' })
  return sudo.status === 0 ? ['sudo', '-n'] : undefined
}

/** Installs packages. @returns the last output of apt if it failed, else an empty string */
async function install(asRoot, names) {
  // A fresh server often runs its unattended upgrades: wait for their lock instead of failing.
  const wait = ['-o', 'DPkg::Lock::Timeout=300']
  const apt = args => {
    const variables = ['DEBIAN_FRONTEND=noninteractive', 'LC_ALL=C.UTF-8']
    const [command, ...rest] = [...asRoot, 'env', ...variables, 'apt-get', ...wait, ...args]
    return program(command, rest)
  }
  const add = wanted => apt(['install', '-y', '-q', '--no-install-recommends', ...wanted])
  let last = { status: 0, output: '' }
  await step(`Installing ${names.join(', ')}`, async () => {
    if (existsSync('/run/systemd/system'))
      for (const { service } of packages.filter(one => one.service && names.includes(one.name)))
        await program(asRoot[0] ?? 'systemctl', [
          ...asRoot.slice(1),
          ...(asRoot[0] ? ['systemctl'] : []),
          'mask',
          service,
        ])
    await apt(['update', '-q'])
    last = await add(names)
    // A package that this distribution lacks must not prevent the installation of the others.
    if (last.status !== 0 && /Unable to locate package|has no installation candidate/.test(last.output))
      for (const name of names) last = await add([name])
    const lacking = packages.filter(one => names.includes(one.name) && isMissing(one)).length
    return lacking === 0 ? undefined : `all but ${lacking}`
  })
  return last.status === 0 ? '' : last.output
}

/**
 * Prints the missing packages.
 * @throws Failure instead if `mandatory` is set and virtual machines need one of the packages
 */
function reportMissing(missing, mandatory, output = '') {
  const needed = missing.filter(one => one.needed)
  const list = missing.map(one => `  ${one.name.padEnd(18)} ${one.why}${one.needed ? ' (needed)' : ''}`).join('\n')
  const text = `These packages are missing:\n${list}\n${howToInstall(missing)}`
  if (mandatory && needed.length > 0) throw new Failure(output === '' ? text : `${text}\n${reasonOf(output)}`)
  process.stderr.write(`${text}\n`)
}

function howToInstall(missing) {
  const names = missing.map(({ name }) => name).join(' ')
  if (!present('apt-get'))
    return `Mote installs packages with apt, which this system does not have. Install the programs with its own package manager (the names above are Debian's), then run the command again.`
  const command = `apt-get update && apt-get install -y --no-install-recommends ${names}`
  if (process.getuid() === 0) return `Install them with:\n  ${command}`
  return `Install them as root, then run the command again:\n  ${present('sudo') ? 'sudo sh -c' : 'su -c'} '${command}'`
}
