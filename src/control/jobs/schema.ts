import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, labelName, list, text } from '../http/types.ts'
import { Job, PutJobRequest, StartedJob } from './resources.ts'

const base = '/v1/apps/{app_name}/jobs'
const ofApp = { app_name: text({ description: 'Name of the app.', examples: ['web'] }) }
const ofJob = Type.Object({
  ...ofApp,
  job_name: labelName({ description: 'Name of the job; unique in its app.', examples: ['nightly-report'] }),
})
const shared = { tag: 'Jobs', auth: 'bearer', project: 'selected', scope: 'exec', addition: true } as const

export const jobOperations = operations({
  listJobs: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: base,
    summary: 'List the jobs of an app',
    description: 'Lists the commands that run by a schedule, with their next time, by name.',
    params: Type.Object(ofApp),
    list: { order: ['name'], filters: ['overlap'] },
    items: [
      {
        id: 'getJob',
        path: `${base}/{job_name}`,
        by: 'name',
        summary: 'Get a job',
        description: 'Returns one job with its next time.',
      },
    ],
    answer: list(Job),
  },
  putJob: {
    ...shared,
    throttle: 'create',
    method: 'PUT',
    path: `${base}/{job_name}`,
    summary: 'Create or change a job',
    description:
      'Sets the command and the schedule. At each time it runs once in a separate VM, with the image and environment of the active deployment. An app has at most 50 jobs. Times that are missed while the control plane is down are made up for by one run.',
    params: ofJob,
    body: PutJobRequest,
    maxBytes: 1 << 17,
    answer: Job,
    fails: [409],
  },
  deleteJob: {
    ...shared,
    method: 'DELETE',
    path: `${base}/{job_name}`,
    summary: 'Delete a job',
    description: 'Removes the schedule. Its runs stay in the history, and one that has not ended goes on.',
    params: ofJob,
    answer: acknowledgement('deleted'),
  },
  startJob: {
    ...shared,
    throttle: 'create',
    method: 'POST',
    path: `${base}/{job_name}/run`,
    summary: 'Run a job now',
    description: 'Starts a run beside the schedule, whether the job is paused or an earlier run has not ended.',
    params: ofJob,
    answer: StartedJob,
    fails: [403, 409],
  },
})
