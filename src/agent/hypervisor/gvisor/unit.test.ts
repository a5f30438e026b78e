/** Tests that the agent's systemd unit grants what gVisor needs, and that volumes stay usable across agent restarts. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, test } from 'vitest'
import { testDir } from '../../../../test/support/agent/agent.ts'
import { driverCases } from '../../../../test/support/agent/hypervisor.ts'
import type { Seen } from '../../../../test/support/agent/restarted-agent.ts'

const unit = readFileSync(new URL('../../../../packaging/systemd/mote-agent.service', import.meta.url), 'utf8')
const granted = (setting: string) =>
  [...unit.matchAll(new RegExp(`^${setting}=(.*)$`, 'gm'))].flatMap(([, values = '']) => values.split(' '))

/** Settings that gVisor needs: without any one of them, `runsc` or its driver fails under systemd 252 (all tried). */
const needs = {
  // ext4 requires CAP_SYS_RESOURCE to grow a mounted file system (ext4_ioctl_setup_resize).
  CapabilityBoundingSet: ['NET_ADMIN', 'NET_RAW', 'SYS_ADMIN', 'SYS_CHROOT', 'SYS_PTRACE', 'SYS_RESOURCE'].map(
    name => `CAP_${name}`,
  ),
  // A sandbox uses its network device through a packet socket (AF_PACKET).
  RestrictAddressFamilies: ['AF_PACKET', 'AF_NETLINK', 'AF_UNIX'],
  RestrictNamespaces: ['user', 'net', 'mnt', 'ipc', 'pid', 'uts'],
  // setpriority, a part of @resources, gives copies a low priority.
  SystemCallFilter: ['@system-service', '@mount', '@privileged', 'seccomp', 'ptrace', 'setpriority'],
  // systemd 252 does not know mseal(2), so it cannot allow it. gVisor continues without mseal only if the call fails
  // with ENOSYS.
  SystemCallErrorNumber: ['ENOSYS'],
} as const

describe("the agent's systemd unit", () => {
  it.each(Object.entries(needs))('grants gVisor the values of %s that it needs', (setting, values) => {
    expect(granted(setting)).toEqual(expect.arrayContaining([...values]))
  })
})

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')

/** Imitates systemd: the host's mounts are shared, and propagate to the mount namespace of each start of the unit. */
const asSystemd = `set -e
mount -t tmpfs tmpfs /run
mkdir /run/cgroup && mount --rbind "$1" /run/cgroup
mount -t sysfs sysfs /sys && mount --rbind /run/cgroup /sys/fs/cgroup
ip link set lo up
for start in 1 2; do
  setpriv --bounding-set "$2" --no-new-privs unshare --mount --propagation slave \\
    sh -c 'mount --make-rshared /; exec "$@"' sh "$3" "$4" "$start" "$5" "$6"
done`

describe(gvisor?.name ?? 'gvisor', () => {
  test.skipIf(gvisor?.skip ?? true)(
    'a restarted agent with the Linux capabilities of the unit adopts a VM and its volumes in a new mount namespace',
    { timeout: 120_000 },
    async () => {
      await using dir = await testDir()
      const own = BigInt(`0x${/^CapBnd:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`)
      const bounding = granted('CapabilityBoundingSet').map(name => name.replace('CAP_', '').toLowerCase())
      // In a container, root may lack CAP_SYS_RESOURCE.
      const held = bounding.filter(name => name !== 'sys_resource' || (own >> 24n) % 2n === 1n)
      const program = fileURLToPath(new URL('../../../../test/support/agent/restarted-agent.ts', import.meta.url))
      const { runsc } = gvisor?.config.programs ?? {}
      const namespaces = [
        '--mount',
        '--propagation',
        'shared',
        '--net',
        '--pid',
        '--fork',
        '--kill-child',
        '--mount-proc',
      ]
      const args = ['-all', ...held.map(name => `+${name}`)].join(',')
      const { stdout } = await promisify(execFile)('unshare', [
        ...namespaces,
        ...['sh', '-c', asSystemd, 'sh', '/sys/fs/cgroup', args, process.execPath, program, dir.path, runsc ?? ''],
      ])
      const seen: Seen[] = stdout
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
      expect(seen).toMatchObject([
        { volumes: ['lost+found', 'written'], grownMib: 64, restarts: 0 },
        {
          volumes: ['v1:', 'lost+found', 'written', 'v2:', 'lost+found', 'written'],
          inFile: ['lost+found', 'written'],
          restarts: 0,
          namespaces: [],
        },
      ])
    },
  )
})
