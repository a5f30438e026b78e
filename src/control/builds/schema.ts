import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, int64, list, nullable, oneOf, resource, text, uint32, uuid } from '../http/types.ts'
import { maxUploadBytes } from './rules.ts'

export const buildStates = [
  ...(['queued', 'fetching', 'building', 'pushing'] as const),
  ...(['succeeded', 'failed', 'cancelled', 'superseded'] as const),
] as const

const buildStatus = () =>
  oneOf(buildStates, {
    description: 'What the build is now; `succeeded`, `failed`, `cancelled` and `superseded` are ends.',
    examples: ['succeeded'],
  })
const buildError = () =>
  nullable(
    text({
      description: 'Why it failed; null: it did not.',
      examples: [null, 'npm ci ended with exit code 1.'],
    }),
  )

export const Build = resource(
  'Build',
  {
    id: uuid({ description: 'Id of the build.' }),
    deployment_id: uuid({ description: 'The deployment that it is for.' }),
    job_id: text({ description: 'The same deployment, as paths name it.', examples: ['job-3f6d0c4f2a1097e0'] }),
    status: buildStatus(),
    git_branch: text({ description: 'The branch that is built; empty: an uploaded source.', examples: ['main'] }),
    git_commit_hash: text({
      description: 'The commit that is built; empty until it is fetched.',
      examples: ['4f1c2a9b7d3e5f60718293a4b5c6d7e8f9012345'],
    }),
    git_commit_message: text({
      description: 'First line of its message; empty until it is fetched.',
      examples: ['Answer on /health'],
    }),
    trigger_source: text({ description: '`manual`, `api` or `push`.', examples: ['push'] }),
    image: nullable(
      text({
        description: 'The image that it made; null until it has.',
        examples: ['registry.mote.example/blue/web:4f1c2a9'],
      }),
    ),
    error: buildError(),
    created_at: dateTime({ description: 'When it was asked for.' }),
    started_at: nullable(dateTime({ description: 'When a host began with it; null: it waits.' })),
    ended_at: nullable(dateTime({ description: 'When it ended; null: it has not.' })),
  },
  { description: 'An image being made of the source of an app.' },
)
export type Build = Static<typeof Build>

const BuildLogLine = resource(
  'BuildLogLine',
  {
    at: dateTime({ description: 'When the line was written.' }),
    line: text({ description: 'The text, without its line break.', examples: ['added 212 packages in 4s'] }),
  },
  { description: 'One line of the log of a build.' },
)

export const BuildLog = resource(
  'BuildLog',
  {
    build_id: uuid({ description: 'The build.' }),
    deployment_id: uuid({ description: 'The deployment that it is for.' }),
    status: buildStatus(),
    error: buildError(),
    source: oneOf(['host', 'kept', 'none'], {
      description: '`host`: as it is now; `kept`: it is over; `none`: it waits, or its lines were lost with its host.',
      examples: ['kept'],
    }),
    lines: list(BuildLogLine, { description: 'The newest lines, oldest first.' }),
  },
  { description: 'What a build wrote.' },
)
export type BuildLog = Static<typeof BuildLog>

export const AppSource = resource(
  'AppSource',
  {
    source: text({
      description: 'What a deploy names to build it: `sha256:` and the digest of what is kept.',
      examples: ['sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'],
    }),
    size_bytes: int64({ description: 'Bytes that are kept, compressed.', examples: [48_213] }),
    files: uint32({ description: 'How many files it has.', examples: [37] }),
  },
  { description: 'An uploaded source.' },
)
export type AppSource = Static<typeof AppSource>

const appName = () => text({ description: 'Name of the app.', examples: ['web'] })
const shared = { tag: 'Builds', auth: 'bearer', project: 'selected', scope: 'read', addition: true } as const

export const buildOperations = operations({
  putAppSource: {
    method: 'PUT',
    path: '/v1/apps/{app_name}/source',
    summary: 'Upload the source of an app',
    description:
      'Takes a tar.gz of the folder of the app and keeps it for a deploy that names it in `source`. Uploads that no deploy names are deleted after a while.',
    ...shared,
    scope: 'deploy',
    throttle: 'create',
    params: Type.Object({ app_name: appName() }),
    upload: { maxBytes: maxUploadBytes },
    fails: [409],
    answer: AppSource,
  },
  listBuilds: {
    method: 'GET',
    path: '/v1/apps/{app_name}/builds',
    summary: 'List the builds of an app',
    description: 'Answers the builds of the app, newest first.',
    ...shared,
    params: Type.Object({ app_name: appName() }),
    list: { order: ['-id'], filters: ['status'] },
    answer: list(Build),
    items: [
      {
        id: 'getBuild',
        path: '/v1/apps/{app_name}/builds/{build_id}',
        by: 'id',
        summary: 'Get a build',
        description: 'Answers one build. With `wait=succeeded,failed` it answers once the build is over.',
        waits: 'status',
      },
    ],
  },
  getBuildLog: {
    method: 'GET',
    path: '/v1/apps/{app_name}/builds/{build_id}/log',
    summary: 'Get the log of a build',
    description:
      'Returns what the build wrote, even long after it ended. Live lines come with the log of its deployment.',
    ...shared,
    params: Type.Object({
      app_name: appName(),
      build_id: text({
        description: 'Id of the build, or id or job id of its deployment.',
        examples: ['job-3f6d0c4f2a1097e0'],
      }),
    }),
    query: Type.Object({
      tail: Type.Optional(
        uint32({ maximum: 10_000, default: 5000, description: 'How many lines, the newest ones.', examples: [5000] }),
      ),
    }),
    answer: BuildLog,
    asksOthers: true,
  },
})
