import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, list, text, uuid } from '../http/types.ts'
import { Run, RunLog, StartRunRequest } from './resources.ts'

const base = '/v1/apps/{app_name}/runs'
const ofApp = { app_name: text({ description: 'Name of the app.', examples: ['web'] }) }
const ofRun = Type.Object({ ...ofApp, run_id: uuid({ description: 'Id of the run, from the list of runs.' }) })
const shared = { tag: 'Runs', auth: 'bearer', project: 'selected', scope: 'exec', addition: true } as const

export const runOperations = operations({
  startRun: {
    ...shared,
    throttle: 'create',
    method: 'POST',
    path: base,
    summary: 'Run a command in a separate VM',
    description:
      'Starts a VM with the image and environment of a deployment, runs the command instead of the app, and removes the VM afterwards. The VM has no volumes, gets no requests, and is not restarted. A project can have at most 20 unfinished runs, whose VMs count toward the limits of its plan.',
    params: Type.Object(ofApp),
    body: StartRunRequest,
    // Maximum size of the request body. The guest accepts 120,000 bytes of command and arguments.
    maxBytes: 1 << 17,
    answer: Run,
    fails: [403, 409],
  },
  listRuns: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: base,
    summary: 'List the runs of an app',
    description: 'Lists the newest 1,000 runs of the app, including release commands. Runs are deleted after 30 days.',
    params: Type.Object(ofApp),
    list: { order: ['-id'], filters: ['status', 'purpose', 'job_name'] },
    items: [
      {
        id: 'getRun',
        path: `${base}/{run_id}`,
        by: 'id',
        summary: 'Get a run',
        description: 'Returns the state of one run, and its exit code once it has ended.',
      },
    ],
    answer: list(Run),
  },
  getRunLog: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: `${base}/{run_id}/log`,
    summary: 'Get the output of a run',
    description:
      'Returns the last lines of the output, during the run and afterwards. To follow the output of a running run, use the log stream of its deployment.',
    params: ofRun,
    answer: RunLog,
  },
  cancelRun: {
    ...shared,
    method: 'DELETE',
    path: `${base}/{run_id}`,
    summary: 'Cancel a run',
    description: 'Stops the program and removes the VM. The request has no effect on a run that has already ended.',
    params: ofRun,
    answer: acknowledgement('cancelling'),
  },
})
