import { Type } from 'typebox'
import { sessionSubprotocol } from '../../contract/session-stream.ts'
import { operations } from '../http/operation.ts'
import { acknowledgement, list, text, uuid } from '../http/types.ts'
import { ProcessQuery, VmProcessList } from './process-resources.ts'
import { AppSsh, AttachQuery, OpenVmSessionRequest, SignalVmSessionRequest, VmSession } from './resources.ts'

const base = '/v1/apps/{app_name}/deployments/{job_id}/sessions'
const ofJob = {
  app_name: text({ description: 'Name of the app.', examples: ['web'] }),
  job_id: text({ description: 'Job id, or UUID of the deployment.', examples: ['job-3f6d0c4f2a1097e0'] }),
}
const ofSession = Type.Object({
  ...ofJob,
  session_id: uuid({ description: 'Id of the session, from the list of sessions.' }),
})
const shared = { tag: 'VM sessions', auth: 'bearer', project: 'selected', scope: 'exec', addition: true } as const

export const vmSessionOperations = operations({
  openVmSession: {
    ...shared,
    method: 'POST',
    path: base,
    summary: 'Start a program in a VM',
    description:
      'Starts a program in a VM of the deployment, in a terminal or with pipes, and without a time limit. To read its output and write input, connect to the WebSocket of the session. The audit log records the program without its arguments, and how long it ran.',
    params: Type.Object(ofJob),
    body: OpenVmSessionRequest,
    // Maximum size of the request body. The guest accepts 120,000 bytes of command and arguments.
    maxBytes: 1 << 17,
    answer: VmSession,
    fails: [409],
  },
  listVmSessions: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: base,
    summary: 'List the sessions of a deployment',
    description:
      'Lists the sessions in the VMs of the deployment whose programs still run or ended within the last day.',
    params: Type.Object(ofJob),
    list: { order: ['-id'], filters: ['status', 'vm_id'] },
    items: [
      {
        id: 'getVmSession',
        path: `${base}/{session_id}`,
        by: 'id',
        summary: 'Get a session',
        description: 'Returns the state of one session, and its exit code once the program has ended.',
      },
    ],
    answer: list(VmSession),
  },
  attachVmSession: {
    ...shared,
    method: 'GET',
    path: `${base}/{session_id}/attach`,
    summary: 'Connect to a session',
    description:
      'Opens a WebSocket with the subprotocol `mote.session.v1`, which carries input, output, signals and the result. A new client replaces an earlier one. To continue after a lost connection, send the number of bytes that you have already received as `stdout` and `stderr`. Browsers send their token as a second subprotocol: `bearer.` followed by the token.',
    params: ofSession,
    query: AttachQuery,
    answer: 'socket',
    subprotocol: sessionSubprotocol,
    fails: [409],
  },
  signalVmSession: {
    ...shared,
    method: 'POST',
    path: `${base}/{session_id}/signal`,
    summary: 'Send a signal to a session',
    description: 'Sends a signal to the program and its child processes.',
    params: ofSession,
    body: SignalVmSessionRequest,
    answer: acknowledgement('sent'),
    fails: [409],
  },
  closeVmSession: {
    ...shared,
    method: 'DELETE',
    path: `${base}/{session_id}`,
    summary: 'End a session',
    description:
      'Kills the program with all its child processes. The request has no effect if the session has already ended.',
    params: ofSession,
    answer: acknowledgement('closed'),
  },
  listVmProcesses: {
    ...shared,
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/{job_id}/processes',
    summary: 'List the processes of a VM',
    description:
      'Lists the processes in a running VM with their CPU time and memory. The image needs no program for this. Arguments of processes may contain secrets, so the request requires the scope `exec`.',
    params: Type.Object(ofJob),
    query: ProcessQuery,
    answer: VmProcessList,
    asksOthers: true,
    secretAnswer: true,
    fails: [409],
  },
  getAppSsh: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: '/v1/apps/{app_name}/ssh',
    summary: 'Get the SSH address of an app',
    description:
      'Returns how to connect to the running VM of the app with OpenSSH (`ssh`, `scp`, `sftp`, port forwarding). Log in with a registered SSH key, or with an access token with the scope `exec` as the password.',
    params: Type.Object({ app_name: ofJob.app_name }),
    answer: AppSsh,
  },
})
