/** Files that an app's VMs get. Secret contents are never returned. VMs get changes with the next deployment. */
import { createHash } from 'node:crypto'
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { checkEnvName } from '../variables/index.ts'
import * as rules from './file-rules.ts'
import { appFileOperations } from './file-schema.ts'
import * as files from './file-store.ts'
import * as store from './store.ts'

interface PutRequest {
  readonly path: string
  readonly mode?: string | null
  readonly content?: string | null
  readonly variable?: string | null
  readonly secret?: boolean | null
}

export const appFileFeature = (deps: Pick<Deps, 'db' | 'vault'>) =>
  feature(appFileOperations, {
    listAppFiles: {
      read: async ({ project, params }) => {
        const app = await store.byName(deps.db, project.id, params.app_name)
        if (!app) throw notFound()
        return (await files.list(deps.db, app.id)).map(viewOf)
      },
    },
    getAppFileContent: {
      read: async ({ project, params, query }) => {
        const app = await store.byName(deps.db, project.id, params.app_name)
        const file = app && (await files.one(deps.db, app.id, query.path ?? ''))
        if (!file) throw notFound()
        return { path: file.path, content: file.content === null ? null : deps.vault.open('app.file', file.content) }
      },
    },
    putAppFile: {
      write: async call => {
        const file = fileOf(deps, call.body)
        return async tx => {
          const app = await store.lock(tx, call.project.id, call.params.app_name)
          if (!app) throw notFound()
          if (app.envOf !== null) throw invalidState(`${app.name} gets the files of ${app.envOf}. Set the file there.`)
          await putChecked(tx, app.id, file)
          await store.settingsChanged(tx, app.id)
          call.audit({
            action: 'app.file.set',
            resourceType: 'app',
            resourceId: app.id,
            details: { app: app.name, name: file.path },
          })
          return { status: 'set' as const }
        }
      },
    },
    deleteAppFile: {
      write: async call => async tx => {
        const app = await store.lock(tx, call.project.id, call.params.app_name)
        if (!app || !(await files.remove(tx, app.id, call.query.path ?? ''))) throw notFound()
        await store.settingsChanged(tx, app.id)
        call.audit({
          action: 'app.file.delete',
          resourceType: 'app',
          resourceId: app.id,
          details: { app: app.name, name: call.query.path ?? '' },
        })
        return { status: 'deleted' as const }
      },
    },
  })

async function putChecked(tx: Tx, appId: string, file: files.NewFile): Promise<void> {
  const { variable } = file
  if (variable !== null && !(await files.knowsVariable(tx, appId, variable)))
    throw invalidField('variable', `the app has no variable ${variable}. Set it first`)
  await files.put(tx, appId, file)
  rules.checkFiles(await files.list(tx, appId))
}

/** Validates the request to set a file, and encrypts the file's content. @throws ApiError 400 */
function fileOf({ vault }: Pick<Deps, 'vault'>, body: PutRequest): files.NewFile {
  const { content, variable, secret } = body
  const path = rules.checkFilePath(body.path)
  const mode = body.mode == null ? rules.defaultFileMode : rules.checkFileMode(body.mode)
  if ((content == null) === (variable == null))
    throw invalidField('content', 'either the content or a variable is required')
  if (variable != null)
    return { path, mode, sealed: null, variable: checkEnvName(variable), sizeBytes: 0, sha256: null }
  const bytes = rules.checkContent(content ?? '')
  return {
    path,
    mode,
    sealed: vault.seal('app.file', bytes.toString('base64')),
    variable: null,
    sizeBytes: bytes.length,
    sha256: secret === true ? null : createHash('sha256').update(bytes).digest('hex'),
  }
}

const viewOf = (file: files.FileEntry) => ({
  path: file.path,
  mode: rules.modeText(file.mode),
  secret: file.sha256 === null,
  variable: file.variable,
  size_bytes: file.sizeBytes,
  sha256: file.sha256,
  updated_at: file.updatedAt.toISOString(),
})
