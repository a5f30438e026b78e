/** Uploads the build folder of a compose service. */
import { readFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { fixedDockerfile } from '../compose/dockerfile.ts'
import type { StackService } from '../compose/stack.ts'
import type { AppSource } from '../client/index.ts'
import { sendFolder } from './upload.ts'
import type { Call } from './verb.ts'

/**
 * Uploads the build folder. Target and arguments of the service's build are written into its Dockerfile first.
 * @throws Error if the folder or the Dockerfile cannot be read
 */
export async function sendBuild(call: Call, { name, app, build }: StackService): Promise<AppSource> {
  if (!build) throw new Error(`BUG: the service ${name} is not built`)
  const dir = isAbsolute(build.context) ? build.context : join(process.cwd(), build.context)
  const { dockerfile, inline, target, args } = build
  const isPlain =
    dockerfile === undefined && inline === undefined && target === undefined && Object.keys(args).length === 0
  if (isPlain) return sendFolder(call, app.app, dir)
  const file = join(dir, dockerfile ?? 'Dockerfile')
  const text =
    inline ??
    (await readFile(file, 'utf8').catch((cause: unknown) => {
      throw new Error(`${file} of the service ${name} cannot be read.`, { cause })
    }))
  return sendFolder(call, app.app, dir, new Map([['Dockerfile', Buffer.from(fixedDockerfile(text, { args, target }))]]))
}
