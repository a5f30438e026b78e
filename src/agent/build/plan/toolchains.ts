/** Finds the package or archive that provides the version of a tool that a project names. */
import { faultAt } from './project.ts'
import type { ToolVersion } from './types.ts'

/** Available Go toolchains with their SHA-256, oldest first: the newest patch of each minor version. */
const goToolchains: ReadonlyMap<string, string> = new Map([
  ['1.25.14', '1bb543a7745d4c6e045a1bfdb4c4d5a0b05b71ee8b8ff72c0a351598b26991a4'],
  ['1.26.11', 'e1edb778de0aa08c8e827f5a873b35a46afe680fb241482c531725b2355e470d'],
  ['1.27.4', '7ecd542f86ccbbb5017de33ac529872bc48c71f4edb658d63a18d2206f482b9b'],
])

/**
 * Version of Debian's Go in the builder's image. The image has its standard library precompiled, which saves ten
 * minutes under emulation.
 */
const imageGo = '1.24'

export interface GoToolchain {
  readonly version: string
  readonly url: string
  readonly sha256: string
}

/**
 * Returns the oldest toolchain that is new enough. The wanted version is a minimum, because newer versions of Go
 * compile code for older ones.
 * @returns null if the Go in the builder's image suffices
 * @throws BuildFault if the project names a version that is newer than all available ones
 */
export function goToolchainOf({ version, from }: ToolVersion): GoToolchain | null {
  const wanted = /\d+(?:\.\d+)*/.exec(version)?.[0] ?? version
  if (from !== null && compare(wanted, imageGo) <= 0) return null
  const found = [...goToolchains].find(([one]) => compare(one, wanted) >= 0)
  if (!found) {
    const newest = [...goToolchains.keys()].at(-1)
    throw faultAt(from ?? { file: 'go.mod', line: 1 }, `Go ${version} is not available. The newest is ${newest}.`)
  }
  const [own, sha256] = found
  const url = `https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go${own}.linux-amd64.zip`
  return { version: own, url, sha256 }
}

/** The pinned release of rustup, which installs Rust toolchains. */
export const rustup = {
  url: 'https://static.rust-lang.org/rustup/archive/1.28.2/x86_64-unknown-linux-gnu/rustup-init',
  sha256: '20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c',
} as const

/**
 * Returns the rustup name of a version. `rust-version` of Cargo.toml is only a minimum, and `latest` is mise's word:
 * both get the current stable toolchain.
 */
export const rustToolchainOf = ({ version, from }: ToolVersion): string =>
  from?.file.endsWith('Cargo.toml') || version === 'latest' ? 'stable' : version

function compare(a: string, b: string): number {
  const [one, other] = [a, b].map(text => text.split('.').map(Number))
  for (let n = 0; n < 3; n++) {
    const difference = (one?.[n] ?? 0) - (other?.[n] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** Returns the version in uv's notation, which knows the operators of PEP 440 but not Poetry's `^` and `~`. */
export function pythonRequest(version: string): string {
  return version
    .split(',')
    .map(part => part.trim().replace(/^(\d+\.\d+)\.\*$/, '$1'))
    .map(part => {
      const [, operator, minimum = '', major = ''] = /^([~^])(?!=)((\d+)(?:\.[\d.]*)?)$/.exec(part) ?? []
      if (operator === undefined) return part
      const next = `${major}.${Number(minimum.split('.')[1] ?? 0) + 1}`
      return `>=${minimum},<${operator === '^' ? Number(major) + 1 : next}`
    })
    .join(',')
}

/** PDM with the dependency versions that it was released with, because newer ones have broken it. */
const lockedPdm = 'pdm[locked]'

/** Returns the tool as a requirement for pip, with its version if the project names one. */
export function toolRequirement({ tool, version, from }: ToolVersion): string {
  const name = tool === 'pdm' ? lockedPdm : tool
  if (from === null || !/\d/.test(version)) return name
  return /^\d/.test(version) ? `${name}==${version}` : `${name}${version}`
}
