import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { text } from '../http/types.ts'
import { LogDownloadQuery, LogPage, LogSearchQuery } from './resources.ts'

const shared = {
  tag: 'Deployments',
  auth: 'bearer',
  project: 'selected',
  scope: 'read',
  method: 'GET',
  addition: true,
  asksOthers: true,
  params: Type.Object({ app_name: text({ description: 'Name of the app.', examples: ['web'] }) }),
} as const

export const appLogOperations = operations({
  searchAppLogs: {
    ...shared,
    path: '/v1/apps/{app_name}/logs',
    summary: 'Search the logs of an app',
    description:
      "Returns log lines of all deployments of the app, including VMs and deployments that no longer exist, newest first. Lines are deleted after `retention_days`, or earlier if the app's logs exceed the size that the operator allows.",
    query: LogSearchQuery,
    answer: LogPage,
    // Responses with log lines are not cached, because the output of an app may contain secrets.
    secretAnswer: true,
  },
  downloadAppLogs: {
    ...shared,
    path: '/v1/apps/{app_name}/logs/download',
    summary: 'Download the logs of an app',
    description:
      'Sends the matching lines as a file, oldest first, at most 64 MiB. If the file is cut off there, its last line reports it: narrow `since` and `until`.',
    query: LogDownloadQuery,
    answer: 'bytes',
    secretAnswer: true,
  },
})
