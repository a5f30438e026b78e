/** What an event does. Newest by the host's clock wins, so order and repetition of deliveries change nothing. */
import type { Tx } from '../../db/db.ts'
import { statement } from '../../db/db.ts'
import { prepareApp, startDeletingApp } from '../apps/index.ts'
import { unknownAccount, writeAudit } from '../audit/index.ts'
import { type SourceCommit, deployFromSource } from '../builds/index.ts'
import type { DeployCall } from '../deployments/index.ts'
import type { Deps } from '../deps.ts'
import { ApiError } from '../http/errors.ts'
import type { AuditNote } from '../http/operation.ts'
import type { ScmEvent } from './events.ts'
import { previewName } from './rules.ts'
import type { ScmApp } from './store.ts'
import * as store from './store.ts'

export type ApplyDeps = Pick<Deps, 'db' | 'config' | 'clock' | 'vault' | 'log'>

/** `ignored`: not about us, or older than what is known. `refused`: the plan or the state of an app does not allow it. */
export type Effect = 'applied' | 'ignored' | 'refused'

type Of<K extends ScmEvent['kind']> = Extract<ScmEvent, { readonly kind: K }>

/** An event of the integration, about any number of apps. */
export async function applyEvent(deps: ApplyDeps, tx: Tx, event: ScmEvent, traceparent: string): Promise<Effect> {
  switch (event.kind) {
    case 'push':
      return eachApp(deps, tx, event.repoId, app => applyPush(deps, tx, app, event, traceparent))
    case 'pull-request':
      return eachApp(deps, tx, event.repoId, app => applyPullRequest(deps, tx, app, event, traceparent))
    case 'installation':
      return (await store.recordInstallation(tx, event)) ? 'applied' : 'ignored'
    case 'repository': {
      const isNews = await store.recordRepository(tx, event.id, event.fullName, event.isDeleted, event.changedAt)
      if (isNews && !event.isDeleted) await store.rename(tx, event.id, event.fullName, event.cloneUrl)
      return isNews ? 'applied' : 'ignored'
    }
    case 'ping':
    case 'other':
      return 'ignored'
  }
}

/** An event that the secret of one app signed. */
export async function applyToApp(
  deps: ApplyDeps,
  tx: Tx,
  appId: string,
  event: ScmEvent,
  traceparent: string,
): Promise<Effect> {
  const app = await store.lock(tx, appId)
  if (!app) return 'ignored'
  if (event.kind === 'push') return attempt(deps, tx, () => applyPush(deps, tx, app, event, traceparent))
  if (event.kind === 'pull-request') return attempt(deps, tx, () => applyPullRequest(deps, tx, app, event, traceparent))
  return 'ignored'
}

/** In the order of their ids, so that two deliveries never wait for each other. */
async function eachApp(
  deps: ApplyDeps,
  tx: Tx,
  repoId: number | null,
  act: (app: ScmApp) => Promise<Effect>,
): Promise<Effect> {
  const effects: Effect[] = []
  for (const id of repoId === null ? [] : await store.appsWith(tx, repoId)) {
    const app = await store.lock(tx, id)
    // Without the binding anybody could follow, and build, a repository that is not theirs.
    if (!app || app.scmInstallationId === null || !(await store.allowed(tx, app.projectId, app.scmInstallationId)))
      continue
    effects.push(await attempt(deps, tx, () => act(app)))
  }
  return effects.find(one => one === 'applied') ?? effects.find(one => one === 'refused') ?? 'ignored'
}

const savepoint = statement('scm.savepoint', 'SAVEPOINT one_app')
const rollback = statement('scm.rollbackOne', 'ROLLBACK TO SAVEPOINT one_app')

/** What one app may not do must not keep the others from it. */
async function attempt(deps: ApplyDeps, tx: Tx, act: () => Promise<Effect>): Promise<Effect> {
  await tx.run(savepoint)
  try {
    return await act()
  } catch (refusal) {
    if (!(refusal instanceof ApiError)) throw refusal
    await tx.run(rollback)
    deps.log.warn({ reason: refusal.message }, 'a delivery of a git host was refused')
    return 'refused'
  }
}

/**
 * Hosts that tell when a push was get exactly its commit built, and the newest wins. Of the others, and of two pushes
 * within one second, the branch is built as it is when the build begins: that is the newest in any order.
 */
async function applyPush(
  deps: ApplyDeps,
  tx: Tx,
  app: ScmApp,
  event: Of<'push'>,
  traceparent: string,
): Promise<Effect> {
  if (!event.isDefault || app.gitUrl === '') return 'ignored'
  const before = await store.pushOf(tx, app.id, event.branch)
  if (before?.commit === event.commit) return 'ignored'
  const isTie = before?.pushedAt.getTime() === event.pushedAt?.getTime()
  const isNewest = await store.recordPush(tx, app.id, event.branch, event.pushedAt ?? deps.clock.now(), event.commit)
  if (!isNewest) return 'ignored'
  const { branch, commit: hash, message } = event
  await roll(deps, tx, app, { branch, hash, message, isExact: event.pushedAt !== null && !isTie }, traceparent)
  return 'applied'
}

async function applyPullRequest(
  deps: ApplyDeps,
  tx: Tx,
  app: ScmApp,
  event: Of<'pull-request'>,
  traceparent: string,
): Promise<Effect> {
  if (event.isForeign || !deps.config.previews || app.gitUrl === '') return 'ignored'
  if (!(await store.recordPreview(tx, app.id, event.number, event.state, event.changedAt))) return 'ignored'
  const existing = await store.previewOf(tx, app.id, event.number)
  if (event.state === 'closed') {
    if (existing) await startDeletingApp(tx, existing)
    return existing ? 'applied' : 'ignored'
  }
  const id = existing ?? (await createPreview(deps, tx, app, event.number))
  const preview = await store.lock(tx, id)
  if (!preview) return 'ignored'
  const known = await store.pushOf(tx, id, event.branch)
  if (known?.commit === event.commit) return 'applied'
  await store.recordPush(tx, id, event.branch, event.changedAt, event.commit)
  const commit = { branch: event.branch, hash: event.commit, message: event.title, isExact: true }
  await roll(deps, tx, { ...preview, scmInstallationId: app.scmInstallationId }, commit, traceparent)
  return 'applied'
}

/** An app of its own, with its own name and host name; it has the environment of the one it previews. */
async function createPreview(deps: ApplyDeps, tx: Tx, app: ScmApp, number: number): Promise<string> {
  const create = prepareApp(
    deps,
    { id: app.projectId, slug: app.projectSlug },
    {
      ...{ name: previewName(app.name, number), git_url: app.gitUrl, port: app.port },
      ...{ health_check_path: app.healthCheckPath, scm_installation_id: app.scmInstallationId },
    },
  )
  const preview = await create(tx)
  await store.copyEnvironment(tx, app.id, preview.id)
  await store.keepPreview(tx, app.id, number, preview.id)
  await auditOf(
    tx,
    app.projectId,
  )({
    ...{ action: 'app.create', resourceType: 'app', resourceId: preview.id },
    details: { name: preview.name, previews: app.name, pull_request: number },
  })
  return preview.id
}

async function roll(deps: ApplyDeps, tx: Tx, app: ScmApp, commit: SourceCommit, traceparent: string): Promise<void> {
  const notes: AuditNote[] = []
  const call: DeployCall = {
    project: { id: app.projectId },
    caller: { via: { kind: 'push' } },
    traceparent,
    audit: note => void notes.push(note),
  }
  await deployFromSource(deps, call, tx, app, {}, commit)
  for (const note of notes) await auditOf(tx, app.projectId)(note)
}

const auditOf = (tx: Tx, projectId: string) => (note: AuditNote) =>
  writeAudit(tx, { userId: unknownAccount, projectId, via: undefined, ip: undefined, requestId: undefined }, note)
