/** Compares two deployments of an app. */
import { type Db, statement } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import { hypervisorName } from '../vms/index.ts'
import { fileChanges, filesOf, type KeptFile } from './diff-files.ts'
import type { DeploymentDiff } from './schema.ts'

/** The settings that are stored with a deployment. */
export interface KeptDeployment {
  readonly id: string
  readonly jobId: string
  readonly image: string
  readonly commit: string
  readonly branch: string
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly port: number
  readonly hypervisor: number
  readonly command: readonly string[]
  readonly arguments: readonly string[]
  readonly releaseCommand: readonly string[] | null
  readonly healthCheckPath: string | null
}

const columns = `d.id, d.job_id AS "jobId", d.image, d.git_commit_hash AS commit, d.git_branch AS branch, d.vcpus,
  d.memory_mib AS "memoryMib", d.disk_mib AS "diskMib", d.port, d.hypervisor, d.command, d.arguments,
  d.release_command AS "releaseCommand", d.health_check_path AS "healthCheckPath"`
const joined = `FROM deployment d JOIN app a ON a.id = d.app_id
  WHERE d.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live' AND d.want <> 'deleted'`
const named = statement<KeptDeployment>(
  'deployments.kept',
  `SELECT ${columns} ${joined} AND (d.job_id = $3 OR d.id::text = $3)`,
)
const before = statement<KeptDeployment>(
  'deployments.keptBefore',
  `SELECT ${columns} ${joined} AND d.id < $3::uuid ORDER BY d.id DESC LIMIT 1`,
)
const sealedEnv = statement<{ name: string; value: Buffer }>(
  'deployments.sealedEnv',
  `SELECT name, value FROM deployment_env WHERE deployment_id = $1 ORDER BY name`,
)

/**
 * Compares a deployment with its base: the named one, or else the app's previous deployment. Without either, all
 * settings count as differences.
 * @throws ApiError 404
 */
export async function compare(
  { db, vault }: Pick<Deps, 'db' | 'vault'>,
  projectId: string,
  params: { readonly app_name: string; readonly job_id: string },
  base: string | undefined,
): Promise<DeploymentDiff> {
  const find = (job: string) => db.maybe(named, [projectId, params.app_name, job])
  const to = await find(params.job_id)
  if (!to) throw notFound()
  const from = base === undefined ? await db.maybe(before, [projectId, params.app_name, to.id]) : await find(base)
  if (!from && base !== undefined) throw notFound()
  const open = (value: Buffer) => vault.open('app.env', value)
  const env = async (id: string) => new Map((await envOf(db, id)).map(({ name, value }) => [name, value]))
  const [now, earlier] = await Promise.all([env(to.id), from ? env(from.id) : new Map<string, Buffer>()])
  const noFiles: ReadonlyMap<string, KeptFile> = new Map()
  const [files, earlierFiles] = await Promise.all([filesOf(db, to.id), from ? filesOf(db, from.id) : noFiles])
  return {
    job_id: to.jobId,
    base: from?.jobId ?? null,
    fields: fieldChanges(from, to),
    ...envChanges(earlier, now, (a, b) => a.equals(b) || open(a) === open(b)),
    ...fileChanges(vault, earlierFiles, files),
  }
}

const envOf = (db: Db, id: string) => db.rows(sealedEnv, [id])

const json = (words: readonly string[]) => (words.length === 0 ? null : JSON.stringify(words))
const orNull = (text: string) => text || null

const fields: Readonly<Record<string, (d: KeptDeployment) => string | null>> = {
  image: d => orNull(d.image),
  git_commit_hash: d => orNull(d.commit),
  git_branch: d => orNull(d.branch),
  vcpus: d => String(d.vcpus),
  memory_mib: d => String(d.memoryMib),
  disk_mib: d => String(d.diskMib),
  port: d => String(d.port),
  hypervisor: d => hypervisorName(d.hypervisor) ?? null,
  command: d => json(d.command),
  arguments: d => json(d.arguments),
  release_command: d => json(d.releaseCommand ?? []),
  health_check_path: d => d.healthCheckPath,
}

export const fieldChanges = (from: KeptDeployment | undefined, to: KeptDeployment): DeploymentDiff['fields'] =>
  Object.entries(fields)
    .map(([field, read]) => ({ field, from: from ? read(from) : null, to: read(to) }))
    .filter(change => change.from !== change.to)
    // Earlier releases did not store the health check path of a deployment, so it is not compared if it is null.
    .filter(({ field, from: was, to: is }) => field !== 'health_check_path' || !from || (was !== null && is !== null))

/**
 * Compares the variables of two deployments.
 * @param isSame compares the decrypted values: equal values may have different encrypted bytes
 */
export function envChanges<T>(
  from: ReadonlyMap<string, T>,
  to: ReadonlyMap<string, T>,
  isSame: (a: T, b: T) => boolean,
): Pick<DeploymentDiff, 'env_added' | 'env_removed' | 'env_changed'> {
  const changed = [...to].filter(([name, value]) => {
    const was = from.get(name)
    return was !== undefined && !isSame(was, value)
  })
  return {
    env_added: [...to.keys()].filter(name => !from.has(name)),
    env_removed: [...from.keys()].filter(name => !to.has(name)),
    env_changed: changed.map(([name]) => name),
  }
}
