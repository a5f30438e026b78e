import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AgentConfig } from './config.ts'
import { ensureKernel, type GuestKernel } from './guest/kernel.ts'
import { vmmPlatforms } from './drivers.ts'
import { vmUsers } from './hypervisor/isolation.ts'
import { findOneWay } from './image/oneway.ts'
import { proveWaiting } from './hypervisor/qemu/pool/open.ts'
import { probeQemu } from './hypervisor/qemu/probe.ts'
import { probeVmm } from './hypervisor/vmm/probe.ts'
import { run } from '../lib/exec.ts'
import { hasProgram } from '../lib/programs.ts'

/** One thing a host needs, or that makes it better. */
export interface Finding {
  readonly name: string
  /** `missing` keeps real VMs from running; `limited` only takes something away, which `detail` names. */
  readonly ok: 'yes' | 'limited' | 'missing'
  readonly detail: string
  /** A command to run or a thing to change; null when there is nothing to do. */
  readonly fix: string | null
}

interface Tool {
  readonly name: string
  readonly programs: readonly string[]
  readonly package: string
  readonly without: string
  readonly ok: 'limited' | 'missing'
}

const tools: readonly Tool[] = [
  { name: 'qemu', programs: ['qemu-system-x86_64'], package: 'qemu-system-x86', without: 'no real VMs', ok: 'missing' },
  { name: 'skopeo', programs: ['skopeo'], package: 'skopeo', without: 'no images from registries', ok: 'limited' },
  { name: 'umoci', programs: ['umoci'], package: 'umoci', without: 'images cannot be unpacked', ok: 'missing' },
  { name: 'mke2fs', programs: ['mke2fs'], package: 'e2fsprogs', without: 'no scratch disks', ok: 'missing' },
  { name: 'erofs', programs: ['mkfs.erofs'], package: 'erofs-utils', without: 'bases are ext4, larger', ok: 'limited' },
  {
    name: 'compiler',
    programs: ['musl-gcc', 'gcc', 'cc'],
    package: 'musl-tools',
    without: 'the guest init cannot be built',
    ok: 'missing',
  },
  { name: 'git', programs: ['git'], package: 'git', without: 'no builds from repositories', ok: 'limited' },
  {
    name: 'mmdebstrap',
    programs: ['mmdebstrap'],
    package: 'mmdebstrap',
    without: 'builds of static sites only',
    ok: 'limited',
  },
  { name: 'ip', programs: ['ip'], package: 'iproute2', without: 'no taps: user networking only', ok: 'limited' },
  { name: 'nft', programs: ['nft'], package: 'nftables', without: 'no taps: user networking only', ok: 'limited' },
  { name: 'luks', programs: ['cryptsetup'], package: 'cryptsetup-bin', without: 'no encrypted volumes', ok: 'limited' },
  {
    name: 'lvm',
    programs: ['lvs'],
    package: 'lvm2',
    without: 'volumes in directories only, not in thin pools',
    ok: 'limited',
  },
  { name: 'rbd', programs: ['rbd'], package: 'ceph-common', without: 'no volumes on Ceph', ok: 'limited' },
  { name: 'wg', programs: ['wg'], package: 'wireguard-tools', without: 'no mesh between hosts', ok: 'limited' },
]

/**
 * Looks at this machine as a host for VMs. Makes the guest kernel and boots the KVM proof of each VMM that is here, so the
 * first call may take seconds and download 27 MB; nothing outside the cache directory changes.
 */
export async function inspectHost(
  config: Pick<AgentConfig, 'cacheDir' | 'kernelDir' | 'dataDir' | 'programs'>,
  onProgress: (line: string) => void = () => undefined,
): Promise<Finding[]> {
  const findings = await Promise.all(tools.map(inspectTool))
  findings.push(tapFinding(), await wayOutFinding(config.cacheDir), await reflinkFinding(config.cacheDir))
  const kernel = () => ensureKernel(config.cacheDir, onProgress, config.kernelDir ?? undefined)
  const made = await kernel().then(
    ({ version, devices }): Finding => ({
      name: 'kernel',
      ok: 'yes',
      detail: `Linux ${version}${devices === 'acpi' ? ' of the distribution; `mote kernel build` makes one that boots twice as fast' : ', our own'}`,
      fix: null,
    }),
    (error: unknown): Finding => ({
      name: 'kernel',
      ok: 'missing',
      detail: String(error),
      fix: 'apt-get update, then try again',
    }),
  )
  findings.push(made)
  if (made.ok === 'yes' && findings[0]?.ok === 'yes')
    findings.push(await kvmFinding(config.cacheDir, kernel), await poolFinding(config.cacheDir))
  return [...findings, ...(await vmmFindings(config, onProgress))]
}

/** The VMMs that are faster than QEMU where they work; without them nothing is missing. */
async function vmmFindings(
  config: Pick<AgentConfig, 'cacheDir' | 'kernelDir' | 'dataDir' | 'programs'>,
  onProgress: (line: string) => void,
): Promise<Finding[]> {
  const { cacheDir, kernelDir } = config
  const mode = tapFinding().ok === 'yes' ? 'tap' : 'user'
  const findings: Finding[] = []
  for (const { platform, needs } of await vmmPlatforms(config)) {
    const kernel = () => ensureKernel(cacheDir, onProgress, kernelDir ?? undefined, needs)
    const deps = { cacheDir, kernel, network: { mode }, userOf: vmUsers(config.dataDir) } as const
    const { available, detail, fix } = await probeVmm(deps, platform, AbortSignal.timeout(proofMs))
    findings.push({ name: platform.name, ok: available && fix === null ? 'yes' : 'limited', detail, fix })
  }
  return findings
}

async function inspectTool({ name, programs, ok, ...tool }: Tool): Promise<Finding> {
  const found = (await Promise.all(programs.map(hasProgram))).findIndex(Boolean)
  if (found >= 0) return { name, ok: 'yes', detail: programs[found] ?? name, fix: null }
  return { name, ok, detail: tool.without, fix: `apt-get install ${tool.package}` }
}

function tapFinding(): Finding {
  const root = process.getuid?.() === 0
  if (root && existsSync('/dev/net/tun')) return { name: 'tap', ok: 'yes', detail: 'root and /dev/net/tun', fix: null }
  const detail = 'user networking: guests have no egress and the host cannot enforce rules per guest'
  return { name: 'tap', ok: 'limited', detail, fix: root ? 'modprobe tun' : 'run the agent as root' }
}

/** Registries that users name are asked by a program that must not reach the host itself (image/way-out.ts). */
async function wayOutFinding(cacheDir: string): Promise<Finding> {
  const found = await findOneWay(cacheDir)
  if (found.program !== undefined)
    return { name: 'registries', ok: 'yes', detail: 'are reached from a network of their own', fix: null }
  const detail = `a registry can have skopeo ask a port of this host's loopback: ${found.reason}`
  return { name: 'registries', ok: 'limited', detail, fix: 'run the agent as root, or let users make user namespaces' }
}

/** Tries it where the disks are made: the name of a file system does not say how it was formatted. */
async function reflinkFinding(dir: string): Promise<Finding> {
  await mkdir(dir, { recursive: true })
  const probe = await mkdtemp(join(dir, 'reflink-'))
  try {
    const [from, to] = [join(probe, 'from'), join(probe, 'to')]
    await writeFile(from, 'x')
    await run('cp', ['--reflink=always', '--', from, to])
    return { name: 'reflinks', ok: 'yes', detail: 'snapshots and clones share their blocks', fix: null }
  } catch {
    const detail = 'snapshots and clones of volumes are copies, as long as what is written on them'
    return { name: 'reflinks', ok: 'limited', detail, fix: 'put the data directory on XFS or btrfs' }
  } finally {
    await rm(probe, { recursive: true, force: true })
  }
}

const proofMs = 60_000

/** `MOTE_VMM_POOL`: whether a QEMU here waits for its VM (hypervisor/qemu/pool). */
async function poolFinding(cacheDir: string): Promise<Finding> {
  try {
    await proveWaiting(cacheDir, AbortSignal.timeout(proofMs))
    return { name: 'vmm-pool', ok: 'yes', detail: 'QEMU can wait for a VM with all its libraries loaded', fix: null }
  } catch (error) {
    const detail = `each QEMU is started when it is needed, some 20 ms later: ${String(error)}`
    return { name: 'vmm-pool', ok: 'limited', detail, fix: 'apt-get install gcc' }
  }
}

async function kvmFinding(cacheDir: string, kernel: () => Promise<GuestKernel>): Promise<Finding> {
  const { accel, detail } = await probeQemu(cacheDir, kernel, AbortSignal.timeout(proofMs))
  if (accel === 'kvm') return { name: 'kvm', ok: 'yes', detail, fix: null }
  return { name: 'kvm', ok: 'limited', detail, fix: 'use a host with hardware virtualisation, or live with emulation' }
}
