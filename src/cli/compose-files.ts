/** Reads the compose files of a folder. */
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import type { Files } from '../compose/load.ts'
import { mostFileBytes } from '../compose/tree.ts'
import type { StackSource } from '../stack/source.ts'
import type { Flags } from './verb.ts'

const composeNames = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml']

/**
 * Returns the compose file of a folder. If there are several, the first one in the order of the Compose Specification
 * wins.
 */
export const composeFileIn = (dir: string): string | undefined =>
  composeNames.find(name => existsSync(resolve(dir, name)))

/** Reads files of this computer. Relative paths start at the current directory. */
export const localFiles: Files = {
  async read(path) {
    try {
      const { size } = await stat(path)
      if (size > 4 * mostFileBytes)
        throw new Error(`${path} has ${size} bytes: that is no file of variables or settings.`)
      return await readFile(path, 'utf8')
    } catch (cause) {
      if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined
      throw cause
    }
  },
  async bytes(path) {
    const found = await stat(path).catch(() => undefined)
    return found?.isFile() === true && found.size <= mostGivenBytes ? new Uint8Array(await readFile(path)) : undefined
  },
  async list(path) {
    const found = await stat(path).catch(() => undefined)
    const isExecutable = (mode: number) => (mode & 0o111) !== 0
    if (found?.isFile() === true)
      return { isFolder: false, entries: [{ path: '', isExecutable: isExecutable(found.mode) }] }
    if (found?.isDirectory() !== true) return undefined
    // Do not follow symbolic links, because they could lead anywhere on this computer.
    const names = await readdir(path, { withFileTypes: true, recursive: true })
    const files = names.filter(one => one.isFile()).slice(0, mostListed)
    const entries = files.map(async one => {
      const file = join(one.parentPath, one.name)
      return { path: relative(path, file), isExecutable: isExecutable((await stat(file)).mode) }
    })
    return { isFolder: true, entries: (await Promise.all(entries)).toSorted((a, b) => (a.path < b.path ? -1 : 1)) }
  },
}

/**
 * Limit above which a file counts as missing. The API's limit is lower, so that a file between the two limits gets the
 * API's error.
 */
const mostGivenBytes = 64 << 20
/** Maximum number of files that are listed in a mounted folder. An app can have fewer. */
const mostListed = 100

/**
 * Describes where to read the stack: the compose files given with `-f`, else the compose file of the current directory
 * and its override file, such as `compose.override.yaml`.
 * @throws Error if there is none
 */
export function stackSource(flags: Flags): StackSource {
  const given = Array.isArray(flags.file) ? flags.file.map(String) : []
  const profiles = Array.isArray(flags.profile) ? flags.profile.map(String) : []
  const paths = given.length > 0 ? given : filesOfFolder()
  return {
    paths,
    files: localFiles,
    environment: name => process.env[name],
    name: typeof flags.stack === 'string' ? flags.stack : undefined,
    folder: basename(resolve(paths[0] ?? '.', '..')),
    profiles: profiles.length > 0 ? profiles : (process.env.COMPOSE_PROFILES ?? '').split(',').filter(Boolean),
    again: 'mote compose up',
  }
}

function filesOfFolder(): string[] {
  const found = composeFileIn('.')
  if (found === undefined)
    throw new Error(`There is no ${composeNames.join(', ')} in this folder. Name the file with -f.`)
  const override = found.replace(/\.(ya?ml)$/, '.override.$1')
  return existsSync(override) ? [found, override] : [found]
}
