/** Compares the files of two deployments. */
import { type Sql, statement } from '../../db/db.ts'
import type { Vault } from '../../lib/vault.ts'
import type { DeploymentDiff } from './schema.ts'

/** A file as stored with a deployment. */
export interface KeptFile {
  readonly path: string
  readonly mode: number
  /** The file's own content, encrypted for the purpose `app.file`; null: the content is the value of `variable`. */
  readonly content: Buffer | null
  readonly variable: string | null
  /** Value of `variable`, encrypted for the purpose `app.env`. */
  readonly value: Buffer | null
}

const filesOfDeployment = statement<KeptFile>(
  'deployments.keptFiles',
  `SELECT f.path, f.mode, f.content, f.variable, e.value FROM deployment_file f
   LEFT JOIN deployment_env e ON e.deployment_id = f.deployment_id AND e.name = f.variable
   WHERE f.deployment_id = $1 ORDER BY f.path`,
)

export const filesOf = async (sql: Sql, deploymentId: string): Promise<ReadonlyMap<string, KeptFile>> =>
  new Map((await sql.rows(filesOfDeployment, [deploymentId])).map(file => [file.path, file]))

/**
 * Returns the paths of added, removed and changed files. A file has changed if its mode, its variable or its content
 * has. Contents are not returned.
 */
export function fileChanges(
  vault: Pick<Vault, 'open'>,
  from: ReadonlyMap<string, KeptFile>,
  to: ReadonlyMap<string, KeptFile>,
): Pick<DeploymentDiff, 'files_added' | 'files_removed' | 'files_changed'> {
  const isSameText = (purpose: 'app.file' | 'app.env', a: Buffer | null, b: Buffer | null) =>
    a === null || b === null ? a === b : a.equals(b) || vault.open(purpose, a) === vault.open(purpose, b)
  const isSame = (a: KeptFile, b: KeptFile) =>
    a.mode === b.mode &&
    a.variable === b.variable &&
    isSameText('app.file', a.content, b.content) &&
    isSameText('app.env', a.value, b.value)
  const changed = [...to].filter(([path, file]) => {
    const was = from.get(path)
    return was !== undefined && !isSame(was, file)
  })
  return {
    files_added: [...to.keys()].filter(path => !from.has(path)),
    files_removed: [...from.keys()].filter(path => !to.has(path)),
    files_changed: changed.map(([path]) => path),
  }
}
