/**
 * Applies webhook events of git hosts. The newest event by the git host's clock wins, so the result does not depend on
 * the order of deliveries or on repetitions.
 */
import type { Tx } from '../../db/db.ts'
import { prepareApp, startDeletingApp } from '../apps/index.ts'
import { unknownAccount, writeAudit } from '../audit/index.ts'
import { type SourceCommit, deployFromSource } from '../builds/index.ts'
import type { DeployCall } from '../deployments/index.ts'
import type { Deps } from '../base/deps.ts'
import { ApiError } from '../http/errors.ts'
import type { AuditNote } from '../http/operation.ts'
import { copyCredential } from './credential-store.ts'
import { recordEffect } from './effect-store.ts'
import type { ScmEvent } from './events.ts'
import { previewName } from './rules.ts'
import type { ScmApp } from './store.ts'
import * as store from './store.ts'

export type ApplyDeps = Pick<Deps, 'db' | 'config' | 'clock' | 'vault' | 'log'>

/**
 * Effect of a delivery. `ignored`: the event is irrelevant, or older than the stored state. `refused`: the project's
 * plan or an app's state does not allow the deployment.
 */
export type Effect = 'applied' | 'ignored' | 'refused'

/** Effect of a delivery on one app. `reason` is empty if the event was applied. */
interface Outcome {
  readonly status: Effect
  readonly reason: string
}

/** Identifies the delivery in the app's list of deliveries. */
export interface DeliveryRef {
  /** `integration`, or the id of the app whose secret signed the delivery. */
  readonly source: string
  readonly id: string
  readonly event: string
  readonly traceparent: string
}

type Of<K extends ScmEvent['kind']> = Extract<ScmEvent, { readonly kind: K }>

const applied: Outcome = { status: 'applied', reason: '' }
const ignored = (reason: string): Outcome => ({ status: 'ignored', reason })

/** Applies an event of the integration (GitHub App) to all apps of the repository. */
export async function applyEvent(deps: ApplyDeps, tx: Tx, event: ScmEvent, delivery: DeliveryRef): Promise<Effect> {
  switch (event.kind) {
    case 'push':
    case 'pull-request':
      return eachApp(deps, tx, event, delivery)
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

/** Applies an event that was signed with one app's webhook secret, only to this app. */
export async function applyToApp(
  deps: ApplyDeps,
  tx: Tx,
  appId: string,
  event: ScmEvent,
  delivery: DeliveryRef,
): Promise<Effect> {
  const app = await store.lock(tx, appId)
  return app ? toOneApp(deps, tx, app, event, delivery) : 'ignored'
}

/** Applies the event to the repository's apps, in the order of their ids, so that two deliveries cannot deadlock. */
async function eachApp(
  deps: ApplyDeps,
  tx: Tx,
  event: Of<'push' | 'pull-request'>,
  delivery: DeliveryRef,
): Promise<Effect> {
  const effects: Effect[] = []
  for (const id of event.repoId === null ? [] : await store.appsWith(tx, event.repoId)) {
    const app = await store.lock(tx, id)
    // Check that the app's project may use the installation. Otherwise, an app could name another tenant's repository
    // and build it.
    if (!app || app.scmInstallationId === null || !(await store.allowed(tx, app.projectId, app.scmInstallationId)))
      continue
    effects.push(await toOneApp(deps, tx, app, event, delivery))
  }
  return effects.find(one => one === 'applied') ?? effects.find(one => one === 'refused') ?? 'ignored'
}

async function toOneApp(
  deps: ApplyDeps,
  tx: Tx,
  app: ScmApp,
  event: ScmEvent,
  { source, id: deliveryId, event: name, traceparent }: DeliveryRef,
): Promise<Effect> {
  const outcome = await attempt(deps, tx, async () => {
    if (event.kind === 'push') return applyPush(deps, tx, app, event, traceparent)
    if (event.kind === 'pull-request') return applyPullRequest(deps, tx, app, event, traceparent)
    return ignored('Only pushes to branches and pull requests have an effect on an app.')
  })
  const what = event.kind === 'push' || event.kind === 'pull-request' ? event : { branch: '', commit: '' }
  const { branch, commit } = what
  await recordEffect(tx, app.id, source, { ...outcome, deliveryId, event: name, branch, commit })
  return outcome.status
}

/** Runs the action in a savepoint, so that a refusal for one app does not affect the others. */
async function attempt(deps: ApplyDeps, tx: Tx, act: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await tx.savepoint(act)
  } catch (refusal) {
    if (!(refusal instanceof ApiError)) throw refusal
    deps.log.warn({ reason: refusal.message }, 'a webhook delivery of a git host was refused')
    return { status: 'refused', reason: refusal.message }
  }
}

/**
 * Starts a deployment for a push to the app's branch. If the git host reports the time of the push, the pushed commit
 * is built, and the newest push wins. If it reports no time, or two pushes have the same second, the build uses the
 * commit that is the branch's newest when the build starts.
 */
async function applyPush(
  deps: ApplyDeps,
  tx: Tx,
  app: ScmApp,
  event: Of<'push'>,
  traceparent: string,
): Promise<Outcome> {
  if (app.gitUrl === '') return ignored('The app has no git_url.')
  if (app.gitBranch === '' && !event.isDefault) return ignored('The app follows the default branch.')
  if (app.gitBranch !== '' && event.branch !== app.gitBranch)
    return ignored(`The app follows the branch ${app.gitBranch}.`)
  const before = await store.pushOf(tx, app.id, event.branch)
  if (before?.commit === event.commit) return ignored('This commit was already processed.')
  const isTie = before?.pushedAt.getTime() === event.pushedAt?.getTime()
  const isNewest = await store.recordPush(tx, app.id, event.branch, event.pushedAt ?? deps.clock.now(), event.commit)
  if (!isNewest) return ignored('A newer push was already processed.')
  const { branch, commit: hash, message, author } = event
  await roll(deps, tx, app, { branch, hash, message, author, isExact: event.pushedAt !== null && !isTie }, traceparent)
  return applied
}

async function applyPullRequest(
  deps: ApplyDeps,
  tx: Tx,
  app: ScmApp,
  event: Of<'pull-request'>,
  traceparent: string,
): Promise<Outcome> {
  if (event.isForeign) return ignored('Pull requests from other repositories get no preview.')
  if (!deps.config.previews) return ignored('Previews are off (MOTE_PREVIEWS).')
  if (app.gitUrl === '') return ignored('The app has no git_url.')
  if (!(await store.recordPreview(tx, app.id, event.number, event.state, event.changedAt)))
    return ignored('A newer state of the pull request is already known.')
  const existing = await store.previewOf(tx, app.id, event.number)
  if (event.state === 'closed') {
    if (!existing) return ignored('The pull request has no preview.')
    await startDeletingApp(tx, existing)
    return applied
  }
  const id = existing ?? (await createPreview(deps, tx, app, event.number, event.branch))
  const preview = await store.lock(tx, id)
  if (!preview) return ignored('The preview of the pull request is being deleted.')
  const known = await store.pushOf(tx, id, event.branch)
  if (known?.commit === event.commit) return applied
  await store.recordPush(tx, id, event.branch, event.changedAt, event.commit)
  const commit = { branch: event.branch, hash: event.commit, message: event.title, author: event.author, isExact: true }
  await roll(deps, tx, { ...preview, scmInstallationId: app.scmInstallationId }, commit, traceparent)
  return applied
}

/**
 * Creates the preview of a pull request as a separate app with its own name and hostname, and with a copy of the
 * original app's environment.
 */
async function createPreview(deps: ApplyDeps, tx: Tx, app: ScmApp, number: number, branch: string): Promise<string> {
  const create = prepareApp(
    deps,
    { id: app.projectId, slug: app.projectSlug },
    {
      name: previewName(app.name, number),
      git_url: app.gitUrl,
      port: app.port,
      kind: app.kind,
      command: app.command,
      arguments: app.arguments,
      git_branch: branch,
      git_submodules: app.gitSubmodules,
      health_check_path: app.healthCheckPath,
      scm_installation_id: app.scmInstallationId,
    },
  )
  const preview = await create(tx)
  await store.copyEnvironment(tx, app.id, preview.id)
  await copyCredential(tx, app.id, preview.id)
  await store.keepPreview(tx, app.id, number, preview.id)
  await auditOf(
    tx,
    app.projectId,
  )({
    action: 'app.create',
    resourceType: 'app',
    resourceId: preview.id,
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
  await deployFromSource(deps, call, tx, app, { body: {}, commit })
  for (const note of notes) await auditOf(tx, app.projectId)(note)
}

const auditOf = (tx: Tx, projectId: string) => (note: AuditNote) =>
  writeAudit(tx, { userId: unknownAccount, projectId, via: undefined, ip: undefined, requestId: undefined }, note)
