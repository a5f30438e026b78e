/** Follows a deployment until it serves or has failed, with its steps and its log as they come. */
import { setTimeout as sleep } from 'node:timers/promises'
import { pc } from '../programs/colours.ts'
import type { LiveDeploymentStatus } from '../client/index.ts'
import type { Call } from './verb.ts'

/** Statuses in which a deployment stays: nothing more happens by itself. */
const ends: Readonly<Record<string, 'serves' | 'failed'>> = {
  running: 'serves',
  sleeping: 'serves',
  failed: 'failed',
  stopped: 'failed',
  cancelled: 'failed',
  superseded: 'failed',
  deleted: 'failed',
}

/** Half of what a project may ask for in a minute (600), also when it takes long. */
const pollMs = 200

/** What an agent calls the parts of a start. */
const stepNames: Readonly<Record<string, string>> = {
  image: 'Image fetched',
  base: 'Read-only base made',
  disk: 'Writable disk made',
  spawn: 'VMM started',
  boot: 'Guest booted',
  healthy: 'App healthy',
}

export type Watch = Pick<Call, 'client' | 'terminal' | 'signal'>

export interface Followed {
  readonly live: LiveDeploymentStatus
  readonly serves: boolean
}

/**
 * @param leaving a status that it is about to leave, as an earlier deployment that is activated again does
 * @throws Error why it does not serve; the signal's reason when that aborts, and the deployment itself goes on
 */
export async function followDeployment(
  watch: Watch,
  app: string,
  jobId: string,
  what: string,
  leaving?: string,
): Promise<Followed> {
  const { client, terminal, signal } = watch
  const over = new AbortController()
  const logs = printLogs(watch, app, jobId, AbortSignal.any([signal, over.signal]))
  try {
    return await terminal.step(what, async () => {
      const shown = new Set<string>()
      let last = ''
      let left = leaving === undefined
      for (;;) {
        signal.throwIfAborted()
        const live = await client.getDeployment({ app_name: app, job_id: jobId }, { signal })
        for (const { name, ms } of live.steps)
          if (!shown.has(name)) {
            shown.add(name)
            terminal.timed(`  ${stepNames[name] ?? name}`, ms)
          }
        const line = `${live.status}${live.error_message ? `: ${live.error_message}` : ''}`
        if (line !== last) terminal.line(pc.dim(`  ${line}`))
        last = line
        left ||= live.status !== leaving
        const end = left ? ends[live.status] : undefined
        if (end === 'serves') return { live, serves: true }
        if (end === 'failed') throw new Error(`The deployment is ${live.status}. ${live.error_message}`.trim())
        await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    })
  } finally {
    over.abort()
    await logs
  }
}

/** Log lines of a deployment above the spinner; that they end early is no reason to stop. */
async function printLogs({ client, terminal }: Watch, app: string, jobId: string, signal: AbortSignal): Promise<void> {
  try {
    const stream = client.streamDeploymentLogs({ app_name: app, job_id: jobId }, { signal })
    for await (const { event, data } of stream) if (event === 'log') terminal.line(pc.dim(`  | ${logText(data)}`))
  } catch {
    // the status above tells how it goes
  }
}

/** The text of a `log` event. */
export function logText(data: unknown): string {
  const line: unknown = typeof data === 'object' && data !== null ? Reflect.get(data, 'line') : undefined
  return typeof line === 'string' ? line : ''
}
