import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { AgentConfig } from './base/config.ts'
import { ensureKernel, type GuestKernel } from './guest/kernel.ts'
import { runscOf, vmmPlatforms } from './drivers.ts'
import { buildInit } from './guest/init.ts'
import { probeRunsc } from './hypervisor/gvisor/probe.ts'
import { vmUsers } from './hypervisor/isolation.ts'
import { archivesUsage } from './build/archives/store.ts'
import { findOneWay } from './image/oneway.ts'
import { inspectQemu, testedQemu, untestedQemu } from './hypervisor/qemu/program.ts'
import { probeQemu } from './hypervisor/qemu/probe.ts'
import { type Finding, inspectTools } from './host-tools.ts'
import { probeVmm } from './hypervisor/vmm/probe.ts'
import { findUnprivileged } from './worker/worker.ts'
import { run } from '../lib/exec.ts'
import { hasCode } from '../lib/files.ts'

/**
 * Checks this computer as a host for VMs. Fetches the guest kernel and boots a KVM test with each installed VMM, so the
 * first call may take seconds. Changes nothing outside the cache directory.
 */
export async function inspectHost(
  config: Pick<AgentConfig, 'cacheDir' | 'kernel' | 'dataDir' | 'programs' | 'toolchainMib'>,
  onProgress: (line: string) => void = () => undefined,
): Promise<Finding[]> {
  const findings = [await qemuFinding(), ...(await inspectTools())]
  findings.push(await tapFinding(), await wayOutFinding(config.cacheDir), await workerFinding(config.cacheDir))
  findings.push(await reflinkFinding(config.cacheDir), await toolchainFinding(config))
  const kernel = () => ensureKernel(config.cacheDir, onProgress, config.kernel)
  const made = await kernel().then(
    ({ version }): Finding => ({
      name: 'kernel',
      ok: 'yes',
      detail: `Linux ${version}${config.kernel === 'shipped' ? ', the one that comes with Mote' : ` (MOTE_KERNEL=${config.kernel})`}`,
      fix: null,
    }),
    (error: unknown): Finding => ({
      name: 'kernel',
      ok: 'missing',
      detail: String(error),
      fix: 'unset MOTE_KERNEL to use the kernel that comes with Mote',
    }),
  )
  findings.push(made)
  if (made.ok === 'yes' && findings[0]?.ok === 'yes') findings.push(await kvmFinding(config.cacheDir, kernel))
  return [...findings, ...(await vmmFindings(config, kernel))]
}

/** Checks the VMMs that are faster than QEMU on hosts where they work. They are optional. */
async function vmmFindings(
  config: Pick<AgentConfig, 'cacheDir' | 'kernel' | 'dataDir' | 'programs'>,
  kernel: () => Promise<GuestKernel>,
): Promise<Finding[]> {
  const { cacheDir } = config
  const mode = (await tapFinding()).ok === 'yes' ? 'tap' : 'user'
  const findings: Finding[] = []
  for (const platform of await vmmPlatforms(config)) {
    const deps = { cacheDir, kernel, network: { mode }, userOf: vmUsers(config.dataDir) } as const
    const { available, detail, fix } = await probeVmm(deps, platform, AbortSignal.timeout(proofMs))
    findings.push({ name: platform.name, ok: available && fix === null ? 'yes' : 'limited', detail, fix })
  }
  findings.push(await runscFinding(config, mode))
  return findings
}

async function runscFinding(
  config: Pick<AgentConfig, 'cacheDir' | 'programs'>,
  mode: 'tap' | 'user',
): Promise<Finding> {
  const deps = {
    cacheDir: resolve(config.cacheDir),
    network: { mode },
    program: await runscOf(config),
    init: () => buildInit(config.cacheDir, () => undefined),
  } as const
  const { available, detail, fix } = await probeRunsc(deps, AbortSignal.timeout(proofMs))
  return { name: 'gvisor', ok: available ? 'yes' : 'limited', detail, fix }
}

async function qemuFinding(): Promise<Finding> {
  const range = `${testedQemu.oldest} to ${testedQemu.newest}`
  try {
    const { version } = await inspectQemu()
    const untested = untestedQemu(version)
    if (untested === undefined) return { name: 'qemu', ok: 'yes', detail: `${version} (tested: ${range})`, fix: null }
    return { name: 'qemu', ok: 'limited', detail: `${version} is ${untested}`, fix: `install QEMU ${range}` }
  } catch (error) {
    const detail = hasCode(error, 'ENOENT') ? 'no VMs' : messageOf(error)
    return { name: 'qemu', ok: 'missing', detail, fix: 'apt-get install qemu-system-x86' }
  }
}

async function tapFinding(): Promise<Finding> {
  const limited = (why: string, fix: string): Finding => {
    const detail = `${why}: VMs get user networking, without private networks and firewall rules`
    return { name: 'tap', ok: 'limited', detail, fix }
  }
  if (process.getuid?.() !== 0) return limited('the agent is not root', 'run the agent as root')
  if (!existsSync('/dev/net/tun')) return limited('there is no /dev/net/tun', 'modprobe tun')
  const refused = await run('nft', ['list', 'tables']).then(
    () => undefined,
    (error: unknown) =>
      hasCode(error, 'ENOENT') ? 'nft is not installed' : 'this kernel or container refuses nftables',
  )
  if (refused !== undefined) return limited(refused, 'apt-get install nftables, on a kernel with nf_tables')
  return { name: 'tap', ok: 'yes', detail: 'root, /dev/net/tun and nftables', fix: null }
}

async function toolchainFinding({
  cacheDir,
  toolchainMib,
}: Pick<AgentConfig, 'cacheDir' | 'toolchainMib'>): Promise<Finding> {
  const { count, mib } = await archivesUsage(resolve(cacheDir))
  if (toolchainMib === 0)
    return { name: 'toolchains', ok: 'limited', detail: 'every app downloads its own', fix: 'unset MOTE_TOOLCHAIN_MIB' }
  const detail = `${count} archives for builds, ${mib} of ${toolchainMib} MiB (MOTE_TOOLCHAIN_MIB)`
  return { name: 'toolchains', ok: 'yes', detail, fix: null }
}

/** Checks that skopeo can reach registries chosen by users, but not the host itself (image/way-out.ts). */
async function wayOutFinding(cacheDir: string): Promise<Finding> {
  const found = await findOneWay(cacheDir)
  if (found.program !== undefined)
    return { name: 'registries', ok: 'yes', detail: 'are reached from a separate network', fix: null }
  const detail = `a registry can make skopeo connect to a loopback port of this host: ${found.reason}`
  return { name: 'registries', ok: 'limited', detail, fix: 'run the agent as root, or let users make user namespaces' }
}

/**
 * Checks that this host can unpack users' images and repositories with programs that have no privileges
 * (worker/worker.ts).
 */
async function workerFinding(cacheDir: string): Promise<Finding> {
  const found = await findUnprivileged(cacheDir)
  const name = 'unpacking'
  const apart = 'images and sources are unpacked without rights on this host'
  if (found.program !== undefined && found.hasDisks)
    return { name, ok: 'yes', detail: `${apart}, images on a disk of their own size`, fix: null }
  if (found.program !== undefined)
    return {
      name,
      ok: 'limited',
      detail: `${apart}, but only what is counted before limits the size of images`,
      fix: 'modprobe loop; apt-get install e2fsprogs; use a file system with fallocate',
    }
  const detail = `git, umoci and mkfs.erofs run as the agent's own user: ${found.reason}`
  return {
    name,
    ok: 'limited',
    detail,
    fix: 'run the agent as root where it may make namespaces and mounts',
  }
}

/** Tests whether the disks' directory supports reflinks: the file system type does not show if they are enabled. */
async function reflinkFinding(dir: string): Promise<Finding> {
  await mkdir(dir, { recursive: true })
  const probe = await mkdtemp(join(dir, 'reflink-'))
  try {
    const [from, to] = [join(probe, 'from'), join(probe, 'to')]
    await writeFile(from, 'x')
    await run('cp', ['--reflink=always', '--', from, to])
    return { name: 'reflinks', ok: 'yes', detail: 'snapshots and clones share their blocks', fix: null }
  } catch {
    const detail = 'snapshots and clones of volumes are full copies of the written data'
    return { name: 'reflinks', ok: 'limited', detail, fix: 'put the data directory on XFS or btrfs' }
  } finally {
    await rm(probe, { recursive: true, force: true })
  }
}

const proofMs = 60_000

async function kvmFinding(cacheDir: string, kernel: () => Promise<GuestKernel>): Promise<Finding> {
  const { accel, available, detail } = await probeQemu(cacheDir, kernel, AbortSignal.timeout(proofMs))
  if (!available) return { name: 'kvm', ok: 'missing', detail, fix: 'see the detail' }
  if (accel === 'kvm') return { name: 'kvm', ok: 'yes', detail, fix: null }
  return {
    name: 'kvm',
    ok: 'limited',
    detail,
    fix: 'use a host with hardware virtualization, or accept slow emulation',
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
