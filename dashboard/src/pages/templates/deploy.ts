/** Deploys templates with the same planner and steps as the CLI. A deployment continues while other pages are open. */
import { ApiFailure, createClient } from '@mote/client'
import type { Template } from '../../../../src/compose/template.ts'
import type { Context } from '../../../../src/stack/context.ts'
import { endOf, type Goal } from '../../../../src/stack/ends.ts'
import { appsOf, planStack } from '../../../../src/stack/plan.ts'
import { readStack, templateSource } from '../../../../src/stack/source.ts'
import { applyStack } from '../../../../src/stack/up.ts'
import { refresh } from '../../api/client.ts'
import { currentProject } from '../../api/project.ts'
import { refreshAll } from '../../api/queries.ts'
import { currentToken, renew } from '../../api/session.ts'
import { createStore } from '../../api/store.ts'
import { messageOf } from '../../ui/states.tsx'

export interface Run {
  readonly template: string
  readonly stack: string
  readonly project: string | undefined
  /** Names of the apps, in the order in which they start. */
  readonly apps: readonly string[]
  readonly serving: readonly string[]
  /** Name of the step that is being carried out. */
  readonly step: string
  readonly state: 'running' | 'failed' | 'done'
  readonly error: string
  readonly answers: ReadonlyMap<string, string>
}

/** The latest deployment of a template in this tab. */
export const currentRun = createStore<Run | undefined>(undefined)

const change = (part: Partial<Run>) => {
  const run = currentRun.get()
  if (run) currentRun.set({ ...run, ...part })
}

/** Plans the stack of a template as if none of its apps existed. */
export const previewOf = (template: Template, stack: string, answers: ReadonlyMap<string, string>) =>
  readStack(templateSource(template, stack, answers, ''))

const again = 'the deployment of this template'

/**
 * Deploys a template. Resolves when the stack runs or has failed; `currentRun` has the error.
 * @throws Error if it is refused before anything is changed
 */
export async function deployTemplate(template: Template, stack: string, answers: ReadonlyMap<string, string>) {
  if (currentRun.get()?.state === 'running')
    throw new Error('Another template is being deployed. Wait until it is done.')
  const project = currentProject.get()
  const context = contextOf(project)
  const before = currentRun.get()
  // Deploying the same stack again after a failure continues where it stopped.
  const continues = before?.template === template.name && before.stack === stack && before.project === project
  const { services } = await previewOf(template, stack, answers)
  const apps = services.map(({ app }) => app.app)
  if (!(continues && before.state === 'failed')) {
    const taken = (await appsOf(context.client)).find(app => app.stack === stack || apps.includes(app.name))
    if (taken) throw new Error(`The app ${taken.name} already exists. Choose another name.`)
  }
  const run = { template: template.name, stack, project, apps, answers }
  currentRun.set({ ...run, serving: [], step: 'Planning', state: 'running', error: '' })
  addEventListener('beforeunload', warn)
  try {
    const source = templateSource(template, stack, answers, again)
    await applyStack(context, source, await planStack(context, source))
    change({ state: 'done', serving: apps })
  } catch (cause) {
    const reason = context.explain(cause)
    change({ state: 'failed', error: messageOf(reason) })
  } finally {
    removeEventListener('beforeunload', warn)
    await refreshAll('apps', 'volumes', 'active')
  }
}

const warn = (event: BeforeUnloadEvent) => event.preventDefault()

/** Context for the stack planner, bound to the project even if the user selects another one meanwhile. */
function contextOf(project: string | undefined): Context {
  const client = createClient({
    baseUrl: '',
    token: currentToken,
    renew: refused => renew(refused, refresh),
    project: () => project,
  })
  const { signal } = new AbortController()
  const context: Context = {
    client,
    url: location.origin,
    signal,
    step(what, run) {
      change({ step: what })
      return run()
    },
    explain: cause =>
      cause instanceof ApiFailure && cause.details.length > 0
        ? new Error([cause.message, ...cause.details.map(({ field, message }) => `${field}: ${message}`)].join('\n'))
        : cause,
    upload: () => Promise.reject(new Error('BUG: templates are not built from folders')),
    async follow(app, jobId, goal) {
      change({ step: `Deploying ${app}` })
      await refreshAll('apps', 'active')
      await untilServing(context, app, jobId, goal)
      change({ serving: [...(currentRun.get()?.serving ?? []), app] })
    },
  }
  return context
}

/** Polling interval: a deployment takes seconds, and a project has a limit of 600 requests per minute. */
const pollMs = 1000

async function untilServing({ client }: Context, app_name: string, job_id: string, goal: Goal): Promise<void> {
  for (;;) {
    const { status, error_message } = await client.getDeployment({ app_name, job_id })
    const end = endOf(status, goal)
    if (end === 'serves') return
    if (end === 'failed')
      throw new Error(`The deployment of ${app_name} ended with the status ${status}. ${error_message}`.trim())
    await new Promise(resolve => setTimeout(resolve, pollMs))
  }
}
