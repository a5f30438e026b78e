/** Removes images of deleted projects and apps from the installation's own registry, and layers that no image uses. */
import { existsSync } from 'node:fs'
import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { builtPath } from '../control/vms/index.ts'
import { type Db, statement } from '../db/db.ts'
import { run } from '../lib/exec.ts'
import { isUuid } from '../lib/ids.ts'
import { accepts, asAccount, registryAccount } from './registry.ts'

export interface Cleaned {
  /** Names of the directories that were removed: each is a repository, or all repositories of a project. */
  readonly removed: readonly string[]
  readonly bytesBefore: number
  readonly bytesAfter: number
}

const Config = Type.Object({ http: Type.Object({ addr: Type.String() }) })

/**
 * Cleans the files of the registry, which must be stopped, because a push during the garbage collection would lose
 * layers. Images without a tag are kept: deployments refer to images by digest.
 * @param data data directory of the control plane that started the registry
 * @throws Error if there is no registry, or if it is running
 */
export async function cleanRegistry(db: Db, data: string): Promise<Cleaned> {
  const dir = join(resolve(data), 'registry')
  const config = join(dir, 'config.yml')
  if (!existsSync(config)) throw new Error(`there is no registry in ${resolve(data)}. Set its directory with --data`)
  const { http } = Value.Parse(Config, JSON.parse(await readFile(config, 'utf8')))
  const { port } = new URL(`http://${http.addr}`)
  if (await accepts('localhost', Number(port || 80)))
    throw new Error(`the registry runs on port ${port}. Stop mote up or mote control first, then clean it`)
  const root = join(dir, 'images', 'docker', 'registry', 'v2')
  const bytesBefore = await sizeOf(root)
  const removed = await unreachable(db, join(root, 'repositories'))
  for (const name of removed) await rm(join(root, 'repositories', name), { recursive: true, force: true })
  if (existsSync(join(root, 'repositories'))) {
    const [command = '', ...args] = [
      ...asAccount(await registryAccount()),
      ...['docker-registry', 'garbage-collect', config],
    ]
    await run(command, args, { timeoutMs: collectMs })
  }
  return { removed, bytesBefore, bytesAfter: await sizeOf(root) }
}

const collectMs = 3_600_000

const slugs = statement<{ slug: string }>(
  'programs.registrySlugs',
  `SELECT slug FROM project WHERE slug = ANY((SELECT $1::text[])::text[])`,
)
const apps = statement<{ id: string }>(
  'programs.registryApps',
  `SELECT id FROM app WHERE id = ANY((SELECT $1::uuid[])::uuid[])`,
)

/**
 * Returns the repositories of deleted projects and apps. The database is queried after listing the directories, so that
 * repositories of newer projects are kept.
 */
async function unreachable(db: Db, repositories: string): Promise<string[]> {
  const names = await namesIn(repositories)
  const built = (await namesIn(join(repositories, builtPath))).filter(isUuid)
  const known = new Set((await db.rows(slugs, [names])).map(({ slug }) => slug))
  const living = new Set((await db.rows(apps, [built])).map(({ id }) => id))
  return [
    ...names.filter(name => name !== builtPath && !known.has(name)),
    ...built.filter(id => !living.has(id)).map(id => join(builtPath, id)),
  ]
}

const namesIn = (dir: string) => readdir(dir).catch((): string[] => [])

async function sizeOf(dir: string): Promise<number> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true }).catch(() => [])
  let bytes = 0
  for (const one of entries.filter(entry => entry.isFile())) bytes += (await stat(join(one.parentPath, one.name))).size
  return bytes
}
