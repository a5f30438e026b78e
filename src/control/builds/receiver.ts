import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { BuildObserved, type SourcePart, SourceRequest, subjects } from '../../contract/agent.ts'
import { poke } from '../../engine/runner.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { uploadDigest } from './rules.ts'
import { readSource } from './sources.ts'
import * as store from './store.ts'

type ReceiverDeps = Pick<Deps, 'db' | 'bus' | 'config'>

/** Size of one part of an uploaded source. A bus message holds 1 MiB, and base64 makes the part a third larger. */
const partBytes = 512 << 10

/**
 * Receives the hosts' progress reports about builds, which wake the builds' workflows, and sends uploaded sources to
 * hosts.
 */
export async function startBuildReceiver(deps: ReceiverDeps): Promise<Subscription> {
  const observed = await deps.bus.subscribe(
    subjects.allBuilds,
    async message => {
      const { buildId } = Value.Parse(BuildObserved, message.data)
      if (isUuid(buildId)) await deps.db.tx(tx => poke(tx, 'build', buildId))
    },
    { group: 'control' },
  )
  const sources = await deps.bus.serve(
    subjects.allSources,
    (data, subject) => partFor(deps, subject.split('.')[1] ?? '', Value.Parse(SourceRequest, data)),
    { group: 'control' },
  )
  return {
    async stop() {
      await sources.stop()
      await observed.stop()
    },
  }
}

/**
 * Returns a part of an uploaded source, only to the host that runs the build of that source. The host's id comes from
 * the message's subject, which is reliable, because the bus lets a host publish only under its own subject.
 */
async function partFor({ db, config }: ReceiverDeps, hostId: string, request: SourceRequest): Promise<SourcePart> {
  const isNamed = isUuid(hostId) && isUuid(request.buildId)
  const build = isNamed ? await store.ofHost(db, request.buildId, hostId) : undefined
  const digest = build && uploadDigest(build.gitUrl)
  const part =
    digest && (await readSource(config.sourceDir, { ...build, digest, offset: request.offset, length: partBytes }))
  if (!part) throw Object.assign(new Error('The source is no longer retained. Send it again.'), { code: 'not_found' })
  return { data: part.data.toString('base64'), sizeBytes: part.sizeBytes }
}
