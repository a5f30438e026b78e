/** Checks whether this host can run test systems. */
import { hasProgram } from '../../src/lib/programs.ts'

const programs = {
  mmdebstrap: 'mmdebstrap',
  ip: 'iproute2',
  nft: 'nftables',
  unshare: 'util-linux',
  nsenter: 'util-linux',
  tar: 'tar',
} as const

/** Returns what this host lacks to run test systems, and how to get it; undefined if it lacks nothing. */
export async function missingHere(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'they need Linux on x86-64'
  if (process.getuid?.() !== 0) return 'they need root, for mounts and network namespaces'
  const names = Object.keys(programs) as (keyof typeof programs)[]
  const found = await Promise.all(names.map(hasProgram))
  const packages = new Set(names.filter((_, n) => !found[n]).map(name => programs[name]))
  return packages.size === 0 ? undefined : `run "apt-get install ${[...packages].join(' ')}" first`
}
