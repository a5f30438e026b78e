// Finds the Node that runs the project's TypeScript, and the paths of the project's tools. Plain JavaScript: see
// bootstrap.mjs.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** The oldest Node that runs TypeScript directly and has the modules that the sources import. */
const oldestMajor = 24

/**
 * Path of the Node in the npm package `node-<platform>-<arch>`. Not its link in `node_modules/.bin`, because npm 9
 * makes no such links for optional dependencies.
 */
const packaged = join(root, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node')

/** Returns whether the Node of this process can run the sources. */
export const isNewEnough = () => Number(process.versions.node.split('.')[0]) >= oldestMajor

/**
 * Returns whether the Node at this path starts on this computer. The Node from npm is built for glibc: on Alpine it
 * exists but does not start.
 */
export const starts = node => existsSync(node) && spawnSync(node, ['--version'], { stdio: 'ignore' }).status === 0

/**
 * Finds the Node that runs the sources.
 * @returns the path of a Node that can run the sources: the Node from npm, else the Node that runs this script
 * @throws Error with one sentence that says what to do
 */
export function projectNode() {
  if (starts(packaged)) return packaged
  if (isNewEnough()) return process.execPath
  throw new Error(
    `Mote needs Node ${oldestMajor} on this system (${process.platform} ${process.arch}), for which there is no npm package of Node: install Node ${oldestMajor} or newer, then run the command again. This is Node ${process.versions.node}.`,
  )
}

/** Returns environment variables with a PATH in which `node` and the tools are those of the project. */
export const withProjectTools = node => ({
  ...process.env,
  PATH: [dirname(node), join(root, 'node_modules', '.bin'), process.env.PATH ?? '/usr/bin:/bin'].join(':'),
})

/**
 * Paths of the installed tools' scripts, which `projectNode` runs. Not their links in `.bin`, because the targets of
 * these links depend on npm's version.
 */
export const tool = {
  vitest: join(root, 'node_modules', 'vitest', 'vitest.mjs'),
  tsc: join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
  oxlint: join(root, 'node_modules', 'oxlint', 'bin', 'oxlint'),
  biome: join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome'),
  knip: join(root, 'node_modules', 'knip', 'bin', 'knip.js'),
}
