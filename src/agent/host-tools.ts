/** The host's programs that the agent runs, and the versions that the test suite has run with. */
import { CommandError, run } from '../lib/exec.ts'
import { findProgram } from '../lib/programs.ts'
import { ageOf } from './hypervisor/vmm/version.ts'

/** The result of checking one requirement or optional feature of a host. */
export interface Finding {
  readonly name: string
  /** `missing`: the host cannot run real VMs. `limited`: the host only lacks the feature that `detail` names. */
  readonly ok: 'yes' | 'limited' | 'missing'
  readonly detail: string
  /** A command to run or a setting to change; null when nothing has to be done. */
  readonly fix: string | null
}

interface Tool {
  readonly name: string
  /** Names of the program; the host needs only one of them. */
  readonly programs: readonly string[]
  readonly package: string
  readonly without: string
  readonly ok: 'limited' | 'missing'
  /** Arguments that print the program's version, and the range of tested versions, from Debian 12's to Debian 13's. */
  readonly version?: { readonly args: readonly string[]; readonly oldest: string; readonly newest: string }
}

export const hostTools: readonly Tool[] = [
  {
    name: 'skopeo',
    programs: ['skopeo'],
    package: 'skopeo',
    without: 'no images from registries',
    ok: 'limited',
    version: { args: ['--version'], oldest: '1.9', newest: '1.18' },
  },
  {
    name: 'umoci',
    programs: ['umoci'],
    package: 'umoci',
    without: 'images cannot be unpacked',
    ok: 'missing',
    version: { args: ['--version'], oldest: '0.4', newest: '0.4' },
  },
  {
    name: 'mke2fs',
    programs: ['mke2fs'],
    package: 'e2fsprogs',
    without: 'no scratch disks',
    ok: 'missing',
  },
  {
    name: 'erofs',
    programs: ['mkfs.erofs'],
    package: 'erofs-utils',
    without: 'bases are ext4, larger',
    ok: 'limited',
    version: { args: ['--version'], oldest: '1.5', newest: '1.8' },
  },
  {
    name: 'compiler',
    programs: ['musl-gcc', 'gcc', 'cc'],
    package: 'musl-tools',
    without: 'the guest init cannot be built',
    ok: 'missing',
  },
  {
    name: 'git',
    programs: ['git'],
    package: 'git',
    without: 'no builds from repositories',
    ok: 'limited',
    version: { args: ['--version'], oldest: '2.39', newest: '2.47' },
  },
  {
    name: 'mmdebstrap',
    programs: ['mmdebstrap'],
    package: 'mmdebstrap',
    without: 'builds of static sites only',
    ok: 'limited',
    version: { args: ['--version'], oldest: '1.3', newest: '1.5' },
  },
  {
    name: 'ip',
    programs: ['ip'],
    package: 'iproute2',
    without: 'no taps: user networking only',
    ok: 'limited',
    version: { args: ['-V'], oldest: '6.1', newest: '6.15' },
  },
  {
    name: 'nft',
    programs: ['nft'],
    package: 'nftables',
    without: 'no taps: user networking only',
    ok: 'limited',
    version: { args: ['--version'], oldest: '1.0', newest: '1.1' },
  },
  {
    name: 'qemu-img',
    programs: ['qemu-img'],
    package: 'qemu-utils',
    without: 'no encrypted volumes',
    ok: 'limited',
  },
  {
    name: 'lvm',
    programs: ['lvs'],
    package: 'lvm2',
    without: 'volumes in directories only, not in thin pools',
    ok: 'limited',
  },
  {
    name: 'rbd',
    programs: ['rbd'],
    package: 'ceph-common',
    without: 'no volumes on Ceph',
    ok: 'limited',
  },
  {
    name: 'wg',
    programs: ['wg'],
    package: 'wireguard-tools',
    without: 'no mesh between hosts',
    ok: 'limited',
    version: { args: ['--version'], oldest: '1.0', newest: '1.0' },
  },
]

export const inspectTools = (): Promise<Finding[]> => Promise.all(hostTools.map(inspectTool))

async function inspectTool({ name, programs, ok, version, ...tool }: Tool): Promise<Finding> {
  const paths = await Promise.all(programs.map(findProgram))
  const found = paths.findIndex(path => path !== undefined)
  const path = paths[found]
  if (path === undefined) return { name, ok, detail: tool.without, fix: `apt-get install ${tool.package}` }
  const detail = version === undefined ? (programs[found] ?? name) : await versionDetail(path, version)
  return { name, ok: 'yes', detail, fix: null }
}

async function versionDetail(path: string, { args, oldest, newest }: NonNullable<Tool['version']>): Promise<string> {
  // mkfs.erofs of Debian 12 prints its version, but exits with an error.
  const text = await run(path, args, { timeoutMs: 5_000 }).catch((error: unknown) =>
    error instanceof CommandError ? error.stderr : '',
  )
  const found = versionIn(text)
  return found === undefined ? `unknown version (tested: ${oldest} to ${newest})` : rangeDetail(found, oldest, newest)
}

/** Returns the first number that contains a dot in a program's output. */
export const versionIn = (text: string): string | undefined => /\d+\.\d+(?:\.\d+)*/.exec(text)?.[0]

/** Returns the version, and whether it is older or newer than the tested range. */
export function rangeDetail(found: string, oldest: string, newest: string): string {
  if (ageOf(found, oldest) === 'older') return `${found}, older than the tested ${oldest} to ${newest}`
  if (ageOf(found, newest) === 'newer') return `${found}, newer than the tested ${oldest} to ${newest}`
  return found
}
