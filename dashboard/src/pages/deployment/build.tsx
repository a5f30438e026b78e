/** Shows the build of a deployment's image, while it runs and afterwards. */
import type { Build, StreamOptions } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { api } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { duration, shortId } from '../../ui/format.ts'
import { Card, Fact, Facts, Mono } from '../../ui/layout.tsx'
import { Log } from '../../ui/log.tsx'
import type { LogEvent } from '../../ui/log-view.tsx'
import { Notice } from '../../ui/states.tsx'
import { isMoving, Status } from '../../ui/status.tsx'
import { Ago } from '../../ui/time.tsx'

interface Target {
  readonly app_name: string
  readonly job_id: string
}

/** The build of the deployment; undefined if an existing image was deployed. */
export function useBuild({ app_name, job_id }: Target): Build | undefined {
  const builds = useQuery({
    ...queries.builds(app_name),
    refetchInterval: ({ state }) =>
      state.data?.some(one => one.job_id === job_id && isMoving(one.status)) ? 1000 : false,
  })
  return builds.data?.find(one => one.job_id === job_id)
}

export function BuildCard({ build, app_name }: { readonly build: Build; readonly app_name: string }) {
  const isUnderWay = isMoving(build.status)
  const target = { app_name, job_id: build.job_id }
  return (
    <Card flush title="Build" className="overflow-hidden" actions={<Status status={build.status} />}>
      <div className="space-y-4 border-b border-line p-4">
        <Facts>
          <Fact name="Commit" wide>
            <Mono>{commitOf(build)}</Mono> {build.git_commit_message.split('\n')[0]}
          </Fact>
          <Fact name="Branch">
            <Mono>{build.git_branch || '–'}</Mono>
          </Fact>
          <Fact name={isUnderWay ? 'Began' : 'Took'}>
            {isUnderWay ? <Ago at={build.started_at ?? build.created_at} /> : tookOf(build)}
          </Fact>
        </Facts>
        {build.error && (
          <Notice tone="bad">
            <span className="whitespace-pre-wrap">{build.error}</span>
          </Notice>
        )}
      </div>
      <Log
        source={`${build.id} ${isUnderWay ? 'live' : 'kept'}`}
        name={`build-${build.job_id}`}
        open={options => (isUnderWay ? liveLines(target, options) : keptLines(target, options))}
        className="h-72"
      />
    </Card>
  )
}

const tookOf = ({ started_at, ended_at }: Build) =>
  started_at && ended_at ? duration(Date.parse(ended_at) - Date.parse(started_at)) : '–'

/**
 * Yields the log lines of a running build. The deployment's log begins with them; the lines of its VMs follow, which
 * are left out.
 */
async function* liveLines(target: Target, options: StreamOptions): AsyncGenerator<LogEvent> {
  for await (const event of api.streamDeploymentLogs({ ...target, query: { tail: 5000 } }, options))
    if (event.event === 'log' && event.data.stream === 'build') yield event
}

async function* keptLines({ app_name, job_id }: Target, options: StreamOptions): AsyncGenerator<LogEvent> {
  const { deployment_id, lines } = await api.getBuildLog({ app_name, build_id: job_id }, { signal: options.signal })
  for (const line of lines)
    yield {
      event: 'log',
      id: undefined,
      data: { ...line, source: 'platform', stream: 'build', deployment_id, vm_id: '' },
    }
}

/** The commit as text; only builds from a repository have one. */
function commitOf({ git_commit_hash, status }: Build): string {
  if (git_commit_hash !== '') return shortId(git_commit_hash)
  return status === 'queued' || status === 'fetching' ? 'not fetched yet' : 'none: uploaded folder'
}
