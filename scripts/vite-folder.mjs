// Builds a folder of the checkout that is a separate package into its `dist`: installs its packages, and builds it if a
// source has changed since the last build. Plain JavaScript: see bootstrap.mjs.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './project-node.mjs'
import { Failure, npmInstall, program, reasonOf, step } from './step.mjs'

const filesOf = path =>
  !statSync(path).isDirectory()
    ? [path]
    : readdirSync(path)
        .filter(name => !/^(?:node_modules|dist|\.cache)$|\.test\.ts$/.test(name))
        .flatMap(name => filesOf(join(path, name)))

/** Returns a hash of the sources' names and contents, independent of the order in which directories are read. */
function hashOf(sources) {
  const hash = createHash('sha256')
  const files = sources.flatMap(name => filesOf(join(root, name))).sort()
  for (const file of files) hash.update(file.slice(root.length)).update(readFileSync(file))
  return hash.digest('hex')
}

/** Installs the packages of the folder's lock file if the lock file has changed since the last installation. */
export async function installFolder(folder, node) {
  const lock = readFileSync(join(root, folder, 'package-lock.json'), 'utf8')
  const from = join(root, folder, 'node_modules', '.installed-from')
  if (existsSync(from) && readFileSync(from, 'utf8') === lock) return
  await npmInstall(join(root, folder), node)
  writeFileSync(from, lock)
}

/**
 * Builds the folder unless the build is up to date.
 * @param what folder: the package; label: name of the step; without: a sentence on what the user cannot use without
 * the build; sources: all inputs of the build, as paths in the checkout; args: the command line for Node, run in the
 * folder; also: further input of the build that is not a file
 * @param node the project's own Node
 * @returns whether an up-to-date build exists; if the build fails, prints the reason and returns false
 */
export async function ensureFolder({ folder, label, without, sources, args, also = '' }, node) {
  const stamp = join(root, folder, 'dist', '.built-from')
  const hash = hashOf(sources) + (also && createHash('sha256').update(also).digest('hex'))
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return true
  try {
    await step(label, async () => {
      await installFolder(folder, node)
      const { status, output } = await program(node, args, { cwd: join(root, folder) })
      if (status !== 0) throw new Failure(reasonOf(output))
      writeFileSync(stamp, hash)
    })
    return true
  } catch (error) {
    process.stderr.write(`${without} ${error.message}\n`)
    return false
  }
}
