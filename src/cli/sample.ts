/** `mote launch --sample`: deploys the sample app, which needs no folder and no registry. */
import type { DeployAppRequest, DeployResponse } from '../client/index.ts'
import { sampleApp, sampleImage } from '../lib/sample.ts'
import { type Answer, type Call, text } from './verb.ts'

/** Flags that select another app to deploy and therefore conflict with `--sample`. */
const others = { image: '--image', gitUrl: '--git-url', upload: '--upload', port: '--port' } as const

/**
 * Creates and deploys the sample app.
 * @param follow waits for the deployment and returns the output of the command
 * @throws Error if another flag names something else to deploy
 */
export async function launchSample(
  { client, flags, args }: Call,
  size: DeployAppRequest,
  follow: (app: string, answer: DeployResponse) => Promise<Answer>,
): Promise<Answer> {
  const other = Object.entries(others).find(([flag]) => flags[flag] !== undefined)?.[1] ?? (args[0] && 'a folder')
  if (other)
    throw new Error(`--sample deploys the app that comes with Mote. Leave out ${other}, or leave out --sample.`)
  const name = text(flags, 'name') ?? sampleApp.name
  const { git_url, port, health_check_path, drain_timeout } = sampleApp
  await client.createApp({ body: { name, git_url, port, health_check_path, drain_timeout } })
  const answer = await follow(name, await client.deployApp({ app_name: name, body: { ...size, image: sampleImage } }))
  const next = '\nNext, in the folder of an app of your own: mote launch'
  return { ...answer, text: `${answer.text}${next}` }
}
