/** The agent's systemd unit and gVisor: what the unit has to grant, and volumes across starts of the agent. */
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

/** Without any one of them, `runsc` or its driver fails under systemd 252; each was found by leaving it out. */
const needs = {
  // CAP_SYS_RESOURCE: ext4 asks for it when a mounted file system grows (ext4_ioctl_setup_resize).
  CapabilityBoundingSet: ['NET_ADMIN', 'NET_RAW', 'SYS_ADMIN', 'SYS_CHROOT', 'SYS_PTRACE', 'SYS_RESOURCE'].map(
    name => `CAP_${name}`,
  ),
  // The sandbox's network is a packet socket.
  RestrictAddressFamilies: ['AF_PACKET', 'AF_NETLINK', 'AF_UNIX'],
  RestrictNamespaces: ['user', 'net', 'mnt', 'ipc', 'pid', 'uts'],
  // setpriority, of @resources: low priority of copies.
  SystemCallFilter: ['@system-service', '@mount', '@privileged', 'seccomp', 'ptrace', 'setpriority'],
  // systemd 252 does not know mseal(2), and gVisor goes on without it only if the kernel seems not to have it.
  SystemCallErrorNumber: ['ENOSYS'],
} as const

describe("the agent's unit", () => {
  it.each(Object.entries(needs))('grants %s as gVisor needs it', (setting, values) => {
    expect(granted(setting)).toEqual(expect.arrayContaining([...values]))
  })
})

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')

/** As systemd does: a host whose mounts are shared, and for each start of the unit a namespace that only receives them. */
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
    'an agent with the capabilities of the unit adopts a VM in another mount namespace, with its volumes',
    { timeout: 120_000 },
    async () => {
      await using dir = await testDir()
      const own = BigInt(`0x${/^CapBnd:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`)
      const bounding = granted('CapabilityBoundingSet').map(name => name.replace('CAP_', '').toLowerCase())
      // A container may lack it.
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
