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
      'Returns lines of all deployments of the app, also of VMs and deployments that no longer exist, newest first. Lines are removed after `retention_days`, and earlier if an app writes more than the operator retains.',
    query: LogSearchQuery,
    answer: LogPage,
    // The output of an app may contain secrets.
    secretAnswer: true,
  },
  downloadAppLogs: {
    ...shared,
    path: '/v1/apps/{app_name}/logs/download',
    summary: 'Download the logs of an app',
    description:
      'Sends the lines that match as a file, oldest first, at most 64 MiB. If there are more, the last line says so: narrow `since` and `until`.',
    query: LogDownloadQuery,
    answer: 'bytes',
    secretAnswer: true,
  },
})
