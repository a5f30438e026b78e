/** Follows a deployment until it serves or has failed, and prints its steps and its log. */
import { setTimeout as sleep } from 'node:timers/promises'
import { pc } from '../programs/colours.ts'
import type { LiveDeploymentStatus } from '../client/index.ts'
import { endOf, type Goal } from '../stack/ends.ts'
import type { Call } from './verb.ts'

/** Polling interval of the status: uses at most half of a project's rate limit (600 requests per minute). */
const pollMs = 200

/** Labels for the steps that an agent reports. */
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
 * Prints steps and log until the deployment serves, or has run to its end.
 * @param until `leaving`: status to ignore until it changes, because an earlier deployment that is activated again
 * still has its old status; `goal`: whether the deployment has to serve, or to run to its end
 * @throws Error with the reason if the deployment fails; the signal's reason if it aborts, while the deployment
 * continues
 */
export async function followDeployment(
  watch: Watch,
  app: string,
  jobId: string,
  what: string,
  { leaving, goal = 'serve' }: { readonly leaving?: string | undefined; readonly goal?: Goal } = {},
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
        const line = `${live.status}${live.error_message ? `: ${live.error_message}` : canaryText(live)}`
        if (line !== last) terminal.line(pc.dim(`  ${line}`))
        last = line
        left ||= live.status !== leaving
        const end = left ? endOf(live.status, goal) : undefined
        if (end === 'serves') return { live, serves: true }
        if (end === 'failed') throw new Error(`Deployment ${live.status}: ${live.error_message}`.trim())
        await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    })
  } finally {
    over.abort()
    await logs
  }
}

/** Describes a running canary. Rounds the remaining time, because every change of the text prints another line. */
function canaryText({ canary, status }: LiveDeploymentStatus): string {
  if (canary?.state !== 'running' || endOf(status)) return ''
  const leftSeconds = Math.max(0, Math.ceil((Date.parse(canary.ends_at) - Date.now()) / 10_000) * 10)
  return `: canary with ${canary.percent} % of the requests, ${canary.failed} of ${canary.requests} failed, ${leftSeconds} s left`
}

/** Prints log lines of a deployment above the spinner. Errors of the log stream do not end the command. */
async function printLogs({ client, terminal }: Watch, app: string, jobId: string, signal: AbortSignal): Promise<void> {
  try {
    const stream = client.streamDeploymentLogs({ app_name: app, job_id: jobId }, { signal })
    for await (const { event, data } of stream) if (event === 'log') terminal.line(pc.dim(`  | ${logText(data)}`))
  } catch {
    // Ignored: the polled status shows how the deployment ends.
  }
}

/** Returns the text of a `log` event. */
export function logText(data: unknown): string {
  const line: unknown = typeof data === 'object' && data !== null ? Reflect.get(data, 'line') : undefined
  return typeof line === 'string' ? line : ''
}
