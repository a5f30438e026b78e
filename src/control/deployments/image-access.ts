import { type Tx, statement } from '../../db/db.ts'
import { invalidField } from '../http/errors.ts'
import { builtFor, type BuiltRegistries } from '../vms/index.ts'

const ownApp = statement<{ ok: boolean }>(
  'deployments.ownApp',
  `SELECT EXISTS (SELECT FROM app WHERE id = $2 AND project_id = $1) AS ok`,
)

/**
 * Returns whether the project may use the image. A built image belongs to the project of its app: a caller who knows
 * its reference may be a viewer or a former member of that project.
 */
export async function isUsable(tx: Tx, config: BuiltRegistries, projectId: string, image: string): Promise<boolean> {
  const appId = builtFor(image, config)
  return appId === undefined || (await tx.one(ownApp, [projectId, appId])).ok
}

/**
 * Refuses an image that the project may not use.
 * @throws ApiError 400, with the same message for another project's image and for a nonexistent one
 */
export async function assertUsable(tx: Tx, config: BuiltRegistries, projectId: string, image: string): Promise<void> {
  if (await isUsable(tx, config, projectId, image)) return
  throw invalidField('image', 'was not built in this project; deploy the app that it was built for')
}
