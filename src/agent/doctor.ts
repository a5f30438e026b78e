import { existsSync } from 'node:fs'
import type { AgentConfig } from './config.ts'
import { ensureKernel, type GuestKernel } from './guest/kernel.ts'
import { probeQemu } from './hypervisor/qemu/probe.ts'
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
  { name: 'wg', programs: ['wg'], package: 'wireguard-tools', without: 'no mesh between hosts', ok: 'limited' },
]

/**
 * Looks at this machine as a host for VMs. Makes the guest kernel and boots the KVM proof when QEMU is here, so the
 * first call may take seconds and download 27 MB; nothing outside the cache directory changes.
 */
export async function inspectHost(
  config: Pick<AgentConfig, 'cacheDir' | 'kernelDir'>,
  onProgress: (line: string) => void = () => undefined,
): Promise<Finding[]> {
  const findings = await Promise.all(tools.map(inspectTool))
  findings.push(tapFinding())
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
  if (made.ok === 'yes' && findings[0]?.ok === 'yes') findings.push(await kvmFinding(config.cacheDir, kernel))
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

async function kvmFinding(cacheDir: string, kernel: () => Promise<GuestKernel>): Promise<Finding> {
  const { accel, detail } = await probeQemu(cacheDir, kernel, AbortSignal.timeout(30_000))
  if (accel === 'kvm') return { name: 'kvm', ok: 'yes', detail, fix: null }
  return { name: 'kvm', ok: 'limited', detail, fix: 'use a host with hardware virtualisation, or live with emulation' }
}
