import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  dateTime,
  int64,
  list,
  maybe,
  nullable,
  oneOf,
  resource,
  stringMap,
  text,
  uint32,
  uuid,
} from '../http/types.ts'
import { maxUploadBytes } from './rules.ts'
import { maxBuildNames } from './settings.ts'

export const buildStates = [
  ...(['queued', 'fetching', 'building', 'pushing'] as const),
  ...(['succeeded', 'failed', 'cancelled', 'superseded'] as const),
] as const

const buildStatus = () =>
  oneOf(buildStates, {
    description: 'Status of the build; `succeeded`, `failed`, `cancelled` and `superseded` are final.',
    examples: ['succeeded'],
  })
const buildError = () =>
  nullable(
    text({
      description: 'Why the build failed; null if it did not fail.',
      examples: [null, 'npm ci ended with exit code 1.'],
    }),
  )

const buildArguments = {
  maxProperties: maxBuildNames,
  description:
    'Build arguments for the Dockerfile, or, in builds without a Dockerfile, environment variables of the build commands. Members of the project can read them.',
  examples: [{ VERSION: '1.4' }],
}
const dockerfilePath = {
  maxLength: 1024,
  description:
    'Path of the Dockerfile in the source. If empty, `Dockerfile` or `Containerfile` in the top directory is used, if there is one.',
  examples: ['docker/web.Dockerfile'],
}
const names = (description: string, example: string) =>
  list(text({ maxLength: 128, examples: [example] }), { maxItems: maxBuildNames, description, examples: [[example]] })
const buildEnv = () =>
  names('Names of app variables that the build gets in the same way as `args`. Secrets are not allowed.', 'PUBLIC_URL')
const buildSecrets = () =>
  names(
    'Names of app variables that the build gets as secrets: with `RUN --mount=type=secret,id=<name>` in a Dockerfile, or, in builds without a Dockerfile, as environment variables of the build commands.',
    'NPM_TOKEN',
  )

export const AppBuild = resource(
  'AppBuild',
  { dockerfile: text(dockerfilePath), args: stringMap(buildArguments), env: buildEnv(), secrets: buildSecrets() },
  { description: "Settings for builds of the app's source." },
)

export const AppBuildRequest = resource('AppBuildRequest', {
  dockerfile: maybe(text(dockerfilePath)),
  args: maybe(stringMap(buildArguments)),
  env: maybe(buildEnv()),
  secrets: maybe(buildSecrets()),
})

export const Build = resource(
  'Build',
  {
    id: uuid({ description: 'Id of the build.' }),
    deployment_id: uuid({ description: 'UUID of the deployment that the build belongs to.' }),
    job_id: text({ description: 'Short id of the deployment, as used in paths.', examples: ['job-3f6d0c4f2a1097e0'] }),
    status: buildStatus(),
    git_branch: text({ description: 'Branch that is built; empty for an uploaded source.', examples: ['main'] }),
    git_commit_hash: text({
      description: 'Hash of the commit that is built; empty until the commit is fetched.',
      examples: ['4f1c2a9b7d3e5f60718293a4b5c6d7e8f9012345'],
    }),
    git_commit_message: text({
      description: 'First line of the commit message; empty until the commit is fetched.',
      examples: ['Answer on /health'],
    }),
    trigger_source: text({ description: 'What started the build: `manual`, `api` or `push`.', examples: ['push'] }),
    image: nullable(
      text({
        description: 'Reference of the built image; null until it exists.',
        examples: ['registry.mote.example/blue/web:4f1c2a9'],
      }),
    ),
    source: nullable(
      text({
        description: 'Name of the uploaded source that is built; null if a repository is built.',
        examples: [null, 'sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'],
      }),
    ),
    error: buildError(),
    created_at: dateTime({ description: 'When the build was requested.' }),
    started_at: nullable(dateTime({ description: 'When a host started the build; null while it is queued.' })),
    ended_at: nullable(dateTime({ description: 'When the build ended; null while it is running or queued.' })),
  },
  { description: 'A build of an image from the source of an app.' },
)
export type Build = Static<typeof Build>

const BuildLogLine = resource(
  'BuildLogLine',
  {
    at: dateTime({ description: 'When the line was written.' }),
    line: text({ description: 'Text of the line, without its line break.', examples: ['added 212 packages in 4s'] }),
  },
  { description: 'One line of the log of a build.' },
)

export const BuildLog = resource(
  'BuildLog',
  {
    build_id: uuid({ description: 'Id of the build.' }),
    deployment_id: uuid({ description: 'UUID of the deployment that the build belongs to.' }),
    status: buildStatus(),
    error: buildError(),
    source: oneOf(['host', 'kept', 'none'], {
      description:
        'Where the lines come from. `host`: read from the host that runs or ran the build. `kept`: the stored log of a finished build. `none`: there is no log, because the build is queued or its log was lost together with its host.',
      examples: ['kept'],
    }),
    lines: list(BuildLogLine, { description: 'The newest log lines, oldest first.' }),
  },
  { description: 'Log of a build.' },
)
export type BuildLog = Static<typeof BuildLog>

export const AppSource = resource(
  'AppSource',
  {
    source: text({
      description: 'Name of the source, to be used in deployments: `sha256:` and the digest of the stored archive.',
      examples: ['sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'],
    }),
    size_bytes: int64({ description: 'Size of the stored, compressed archive in bytes.', examples: [48_213] }),
    files: uint32({ description: 'Number of files in the source.', examples: [37] }),
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
      "Stores a tar.gz archive of the app's source. A deployment builds it if its `source` names it. Uploads that no deployment names are deleted after a while.",
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
    description: 'Returns the builds of the app, newest first.',
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
        description:
          'Returns one build. With `wait=succeeded,failed` the response is delayed until the build has ended.',
        waits: 'status',
      },
    ],
  },
  getBuildLog: {
    method: 'GET',
    path: '/v1/apps/{app_name}/builds/{build_id}/log',
    summary: 'Get the log of a build',
    description:
      'Returns the log of the build, even long after the build has ended. To follow a running build, use the log stream of its deployment.',
    ...shared,
    params: Type.Object({
      app_name: appName(),
      build_id: text({
        description: 'Id of the build, or UUID or job id of its deployment.',
        examples: ['job-3f6d0c4f2a1097e0'],
      }),
    }),
    query: Type.Object({
      tail: Type.Optional(
        uint32({
          maximum: 10_000,
          default: 5000,
          description: 'Maximum number of lines, taken from the end of the log.',
          examples: [5000],
        }),
      ),
    }),
    answer: BuildLog,
    asksOthers: true,
  },
})
