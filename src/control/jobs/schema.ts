import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, labelName, list, text } from '../http/types.ts'
import { Job, PutJobRequest, StartedJob } from './resources.ts'

const base = '/v1/apps/{app_name}/jobs'
const ofApp = { app_name: text({ description: 'Name of the app.', examples: ['web'] }) }
const ofJob = Type.Object({
  ...ofApp,
  job_name: labelName({ description: 'Name of the job; unique in the app.', examples: ['nightly-report'] }),
})
const shared = { tag: 'Jobs', auth: 'bearer', project: 'selected', scope: 'exec', addition: true } as const

export const jobOperations = operations({
  listJobs: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: base,
    summary: 'List the jobs of an app',
    description: 'Lists the commands that run on a schedule by name, each with its next run.',
    params: Type.Object(ofApp),
    list: { order: ['name'], filters: ['overlap'] },
    items: [
      {
        id: 'getJob',
        path: `${base}/{job_name}`,
        by: 'name',
        summary: 'Get a job',
        description: 'Returns one job with the time of its next run.',
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
      'Sets the command and the schedule of a job. Each time it is due, the command runs once in a separate VM, with the image and environment of the active deployment. If the control plane was down when runs were due, one run makes up for all of them. An app can have at most 50 jobs.',
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
    description: 'Deletes the job. Its runs stay in the history, and a running one continues.',
    params: ofJob,
    answer: acknowledgement('deleted'),
  },
  startJob: {
    ...shared,
    throttle: 'create',
    method: 'POST',
    path: `${base}/{job_name}/run`,
    summary: 'Run a job now',
    description:
      'Starts a run at once, independent of the schedule, even if the job is paused or an earlier run has not ended.',
    params: ofJob,
    answer: StartedJob,
    fails: [403, 409],
  },
})
