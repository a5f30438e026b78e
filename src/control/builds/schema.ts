import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, int64, list, nullable, oneOf, resource, text, uint32, uuid } from '../http/types.ts'
import { maxUploadBytes } from './rules.ts'

export const buildStates = [
  ...(['queued', 'fetching', 'building', 'pushing'] as const),
  ...(['succeeded', 'failed', 'cancelled', 'superseded'] as const),
] as const

export const Build = resource('Build', {
  id: uuid(),
  deployment_id: uuid(),
  job_id: text(),
  status: oneOf(buildStates),
  git_branch: text(),
  git_commit_hash: text({ description: 'Empty until it is fetched.' }),
  git_commit_message: text(),
  trigger_source: text(),
  image: nullable(text()),
  error: nullable(text()),
  created_at: dateTime(),
  started_at: nullable(dateTime()),
  ended_at: nullable(dateTime()),
})
export type Build = Static<typeof Build>

export const BuildLog = resource('BuildLog', {
  build_id: uuid(),
  deployment_id: uuid(),
  status: oneOf(buildStates),
  error: nullable(text()),
  source: oneOf(['host', 'kept', 'none'], {
    description: '`host`: as it is now; `kept`: it is over; `none`: it waits, or its lines were lost with its host.',
  }),
  lines: list(resource('BuildLogLine', { at: dateTime(), line: text() })),
})
export type BuildLog = Static<typeof BuildLog>

export const AppSource = resource('AppSource', {
  source: text({ description: 'What a deploy names to build it: `sha256:` and the digest of what is kept.' }),
  size_bytes: int64({ description: 'Of what is kept, compressed.' }),
  files: uint32(),
})
export type AppSource = Static<typeof AppSource>

const shared = { tag: 'Builds', auth: 'bearer', project: 'selected', scope: 'read', addition: true } as const

export const buildOperations = operations({
  putAppSource: {
    method: 'PUT',
    path: '/v1/apps/{app_name}/source',
    summary: 'Takes the source of an app, a tar.gz of its folder, for a deploy that names it',
    ...shared,
    scope: 'deploy',
    throttle: 'create',
    params: Type.Object({ app_name: text() }),
    upload: { maxBytes: maxUploadBytes },
    fails: [409],
    answer: AppSource,
  },
  listBuilds: {
    method: 'GET',
    path: '/v1/apps/{app_name}/builds',
    summary: 'Builds of an app, newest first',
    ...shared,
    params: Type.Object({ app_name: text() }),
    list: { order: ['-id'], filters: ['status'] },
    answer: list(Build),
    items: [
      {
        id: 'getBuild',
        path: '/v1/apps/{app_name}/builds/{build_id}',
        by: 'id',
        summary: 'One build',
        waits: 'status',
      },
    ],
  },
  getBuildLog: {
    method: 'GET',
    path: '/v1/apps/{app_name}/builds/{build_id}/log',
    summary: 'What a build said, also long after it failed; live lines come with the log of its deployment',
    ...shared,
    params: Type.Object({
      app_name: text(),
      build_id: text({ description: 'Of the build, or id or job id of its deployment.' }),
    }),
    query: Type.Object({
      tail: Type.Optional(uint32({ maximum: 10_000, default: 5000, description: 'The newest lines.' })),
    }),
    answer: BuildLog,
    asksOthers: true,
  },
})
