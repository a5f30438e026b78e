/** Installs the programs that benchmarks compare the product with, from Debian packages. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const packages = [
  'nginx',
  'haproxy',
  'wrk',
  'nats-server',
  'etcd-server',
  'postgresql',
  'libvirt-daemon-system',
  'python3-libvirt',
  'lxd',
  'ganeti-htools',
]

/** Installs the peers; needs root. @returns whether apt-get succeeded */
export async function installPeers(): Promise<boolean> {
  const child = spawn('apt-get', ['install', '-y', '--no-install-recommends', ...packages], {
    stdio: 'inherit',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  })
  const [code] = await once(child, 'exit')
  return code === 0
}
