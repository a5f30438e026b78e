/**
 * The context in which a command applies stack plans: the API client, and the terminal on which it shows the progress.
 */
import type { Context } from '../stack/context.ts'
import { sendBuild } from './compose-build.ts'
import { followDeployment } from './follow.ts'
import { type Call, explained } from './verb.ts'

export const stackContext = (call: Call): Context => ({
  client: call.client,
  url: call.url,
  signal: call.signal,
  step: (what, run) => call.terminal.step(what, run),
  explain: cause => explained(cause, call.url),
  upload: async service => (await sendBuild(call, service)).source,
  follow: (app, jobId, goal) =>
    followDeployment(call, app, jobId, `${goal === 'end' ? 'Running' : 'Deploying'} ${app}`, { goal }),
})
