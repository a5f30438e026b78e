/** Credentials of single apps: for repositories that are in no installation of the integration. */
import type { Static } from 'typebox'
import { gitPlace } from '../builds/index.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import * as store from './credential-store.ts'
import { makeKeyPair } from '../../lib/openssh-key.ts'
import { checkKnownHosts } from './rules.ts'
import type { GitCredential, PutGitCredential } from './resources.ts'
import type { scmOperations } from './schema.ts'

type CredentialOperations = Pick<typeof scmOperations, 'getGitCredential' | 'putGitCredential' | 'deleteGitCredential'>

export const credentialHandlers = (deps: Pick<Deps, 'db' | 'vault' | 'config'>): Handlers<CredentialOperations> => ({
  getGitCredential: {
    read: async ({ project, params }) => {
      const app = await store.appNamed(deps.db, project.id, params.app_name)
      const found = app && (await store.credential(deps.db, app.id))
      if (!found) throw notFound()
      return view(found)
    },
  },
  putGitCredential: {
    write: async call => {
      const make = prepared(deps, call.body, `mote ${call.params.app_name}`)
      return async tx => {
        const app = await store.appNamed(tx, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        await store.putCredential(tx, app.id, make(app.gitUrl))
        const stored = await store.credential(tx, app.id)
        if (!stored) throw new Error('BUG: the credential was stored and is not there')
        const details = { app: call.params.app_name, kind: stored.kind, host: stored.host }
        call.audit({ action: 'app.git_credential.set', resourceType: 'app', resourceId: app.id, details })
        return view(stored)
      }
    },
  },
  deleteGitCredential: {
    write: async call => async tx => {
      const app = await store.appNamed(tx, call.project.id, call.params.app_name)
      if (!app || !(await store.removeCredential(tx, app.id))) throw notFound()
      const details = { app: call.params.app_name }
      call.audit({ action: 'app.git_credential.delete', resourceType: 'app', resourceId: app.id, details })
      return { status: 'deleted' as const }
    },
  },
})

/** Checks what can be checked without the app, and seals; then what is stored for an app with that address. */
function prepared({ vault, config }: Pick<Deps, 'vault' | 'config'>, body: PutGitCredential, comment: string) {
  if (body.kind === 'token') {
    if (!body.token) throw invalidField('token', 'is required: the token or password that reads the repository')
    const secret = vault.seal('git.credential', body.token)
    const username = body.username ?? 'git'
    return (gitUrl: string) => {
      const { host } = placeOf(gitUrl, 'http')
      if (!gitUrl.startsWith('https:') && !config.privateGitHosts)
        throw invalidState('A token is sent over https only: give the https address of the repository first.')
      return { kind: 'token' as const, host, username, publicKey: null, knownHosts: null, secret }
    }
  }
  if (body.token) throw invalidField('token', 'is only for the kind "token"; keys are made here')
  const knownHosts = checkKnownHosts(body.known_hosts ?? '')
  const { privateKey, publicKey } = makeKeyPair(comment)
  const secret = vault.seal('git.credential', privateKey)
  return (gitUrl: string) => {
    const { host } = placeOf(gitUrl, 'ssh')
    return { kind: 'ssh_key' as const, host, username: '', publicKey, knownHosts, secret }
  }
}

function placeOf(gitUrl: string, transport: 'http' | 'ssh') {
  const place = gitPlace(gitUrl)
  if (place?.transport === transport) return place
  const form = transport === 'ssh' ? 'git@host:owner/repo.git or ssh://' : 'https://'
  throw invalidState(`The app's git_url is none of ${form}: change it first, with PATCH.`)
}

const view = (one: store.StoredCredential): Static<typeof GitCredential> => ({
  kind: one.kind,
  host: one.host,
  username: one.username,
  public_key: one.publicKey,
  known_hosts: one.knownHosts,
  updated_at: one.updatedAt.toISOString(),
})
