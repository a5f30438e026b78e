/** Reads the compose files of a folder. */
import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { type Files, loadModel } from '../compose/load.ts'
import { labelOf, type Stack, stackOf } from '../compose/stack.ts'
import { mostFileBytes } from '../compose/tree.ts'
import type { Flags } from './verb.ts'

const composeNames = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml']

/** The compose file of a folder, by the order of the Compose Specification. */
export const composeFileIn = (dir: string): string | undefined =>
  composeNames.find(name => existsSync(resolve(dir, name)))

/** Files of this computer, relative to the current directory. */
const localFiles: Files = {
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
}

/** Host names and URLs of apps, by service. */
export type Addresses = ReadonlyMap<string, { readonly app: string; readonly host: string; readonly url: string }>

export interface StackSource {
  readonly paths: readonly string[]
  readonly files: Files
  /** Variables besides `.env`. */
  readonly environment: (name: string) => string | undefined
  readonly name: string | undefined
  readonly profiles: readonly string[]
  readonly appName?: (service: string) => string
  /** Command that repeats the deployment. */
  readonly again: string
}

/** The files of `-f`, or that of the current directory with its override. @throws Error if there is none */
export function stackSource(flags: Flags): StackSource {
  const given = Array.isArray(flags.file) ? flags.file.map(String) : []
  const profiles = Array.isArray(flags.profile) ? flags.profile.map(String) : []
  return {
    paths: given.length > 0 ? given : filesOfFolder(),
    files: localFiles,
    environment: name => process.env[name],
    name: typeof flags.stack === 'string' ? flags.stack : undefined,
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

/** Reads the stack. Variables MOTE_APP_, MOTE_HOST_ and MOTE_URL_<SERVICE> have the addresses of its apps. */
export async function readStack(source: StackSource, addresses: Addresses = new Map()): Promise<Stack> {
  const known = new Map<string, string>(
    [...addresses].flatMap(([service, { app, host, url }]) => {
      const name = service.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')
      return [
        [`MOTE_APP_${name}`, app],
        [`MOTE_HOST_${name}`, host],
        [`MOTE_URL_${name}`, url],
      ] as const
    }),
  )
  const environment = (name: string) => known.get(name) ?? source.environment(name)
  const model = await loadModel(source.paths, source.files, environment)
  const name =
    source.name ??
    source.environment('COMPOSE_PROJECT_NAME') ??
    model.name ??
    basename(resolve(source.paths[0] ?? '.', '..'))
  const label = labelOf(name)
  if (label === undefined) throw new Error(`"${name}" cannot be the name of a stack. Give one with --stack.`)
  return stackOf(model, source.files, { name: label, profiles: source.profiles, appName: source.appName })
}
