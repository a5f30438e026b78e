/**
 * A client that records acknowledged writes. It repeats each call with the same Idempotency-Key until it gets a
 * response, so that the record (`Ledger`) is exactly what the installation has acknowledged.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../simulation/random.ts'

export interface PromisedApp {
  readonly name: string
  replicas: number
  readonly env: Set<string>
  /** Ids of acknowledged deployments, oldest first. */
  readonly jobs: string[]
  /** The last acknowledged desired state of the newest deployment. */
  newest: 'running' | 'paused' | 'stopped'
}

export interface Ledger {
  readonly apps: Map<string, PromisedApp>
  readonly deleted: string[]
  readonly counts: { acknowledged: number; refused: number; repeated: number }
}

export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: callers check the response
  readonly body: any
}

export type Call = (method: string, path: string, body?: unknown) => Promise<Answer>

/** Returns a function that sends a call to random control planes until one gives a definite response. */
export function persistentCall(
  planes: readonly string[],
  token: string,
  random: Random,
  { repeated, onBug }: { readonly repeated: () => void; readonly onBug: (what: string) => void },
  signal: AbortSignal,
): Call {
  return async (method, path, body) => {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(method === 'POST' ? { 'idempotency-key': randomUUID() } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    for (;;) {
      signal.throwIfAborted()
      try {
        const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
        const response = await fetch(random.pick(planes) + path, {
          ...init,
          signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
        })
        const answer: Answer = { status: response.status, body: await response.json() }
        // 409 `operation_in_progress`: a control plane was killed during the first attempt.
        const pending = answer.status === 409 && answer.body.code === 'operation_in_progress'
        // 500 is a bug even if a process was killed; 502 to 504 are not.
        if (answer.status === 500) onBug(`${method} ${path} answered 500: ${JSON.stringify(answer.body)}`)
        if (answer.status < 500 && answer.status !== 429 && !pending) return answer
      } catch (cause) {
        if (signal.aborted) throw cause
      }
      repeated()
      await pause(20 + random.below(80))
    }
  }
}

/** What a client deploys, and its maximum number of apps and replicas. */
export interface Taste {
  readonly deploy: (rollout: number) => Readonly<Record<string, unknown>>
  readonly mostApps: number
  readonly mostReplicas: number
}

/** Runs one random operation on apps that only this client uses. */
export async function act(call: Call, ledger: Ledger, random: Random, prefix: string, taste: Taste): Promise<void> {
  const app = random.pick([...ledger.apps.values()])
  const ops: readonly (readonly [number, () => Promise<void>])[] = [
    [
      ledger.apps.size < taste.mostApps ? 3 : 0,
      () => create(call, ledger, `${prefix}-${ledger.apps.size + ledger.deleted.length}`),
    ],
    [app ? 4 : 0, () => deploy(call, ledger, app!, taste.deploy(app!.jobs.length))],
    [app ? 2 : 0, () => scale(call, ledger, app!, 1 + random.below(taste.mostReplicas))],
    [app ? 2 : 0, () => setEnv(call, ledger, app!, `V${random.below(5)}`)],
    [app?.jobs.length ? 2 : 0, () => verb(call, ledger, app!, random.chance(0.5) ? 'pause' : 'resume')],
    [app?.jobs.length ? 1 : 0, () => verb(call, ledger, app!, 'stop')],
    [app ? 0.5 : 0, () => remove(call, ledger, app!)],
  ]
  let dice = random.next() * ops.reduce((sum, [often]) => sum + often, 0)
  for (const [often, run] of ops) {
    dice -= often
    if (dice < 0) return run()
  }
}

function note(ledger: Ledger, answer: Answer): boolean {
  const good = answer.status === 200
  if (good) ledger.counts.acknowledged++
  else ledger.counts.refused++
  return good
}

async function create(call: Call, ledger: Ledger, name: string): Promise<void> {
  const body = { name, git_url: '', drain_timeout: 0, max_replicas: 3, health_check_path: '/health' }
  const answer = await call('POST', '/v1/apps', body)
  if (!note(ledger, answer)) throw new Error(`${name} was refused: ${JSON.stringify(answer.body)}`)
  ledger.apps.set(name, { name, replicas: answer.body.desired_replicas, env: new Set(), jobs: [], newest: 'running' })
}

async function deploy(call: Call, ledger: Ledger, app: PromisedApp, what: ReturnType<Taste['deploy']>): Promise<void> {
  const answer = await call('POST', `/v1/apps/${app.name}/deploy`, what)
  if (!note(ledger, answer)) return
  app.jobs.push(answer.body.job_id)
  app.newest = 'running'
}

async function scale(call: Call, ledger: Ledger, app: PromisedApp, replicas: number): Promise<void> {
  if (note(ledger, await call('PATCH', `/v1/apps/${app.name}/scale`, { desired_replicas: replicas })))
    app.replicas = replicas
}

async function setEnv(call: Call, ledger: Ledger, app: PromisedApp, name: string): Promise<void> {
  const path = `/v1/apps/${app.name}/env/${name}`
  if (app.env.has(name)) {
    await call('DELETE', path)
    app.env.delete(name)
  } else if (note(ledger, await call('PUT', path, { value: 'x' }))) app.env.add(name)
}

async function verb(call: Call, ledger: Ledger, app: PromisedApp, what: 'pause' | 'resume' | 'stop'): Promise<void> {
  const path = `/v1/apps/${app.name}/deployments/${app.jobs.at(-1)}`
  const answer = what === 'stop' ? await call('DELETE', path) : await call('POST', `${path}/${what}`)
  if (note(ledger, answer)) app.newest = what === 'pause' ? 'paused' : what === 'stop' ? 'stopped' : 'running'
}

async function remove(call: Call, ledger: Ledger, app: PromisedApp): Promise<void> {
  // A repeated DELETE may find the app already deleted.
  const { status } = await call('DELETE', `/v1/apps/${app.name}`)
  if (status !== 200 && status !== 404) throw new Error(`${app.name} could not be deleted: ${status}`)
  ledger.counts.acknowledged++
  ledger.apps.delete(app.name)
  ledger.deleted.push(app.name)
}
