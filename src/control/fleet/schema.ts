import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, bool, list, text } from '../http/types.ts'
import { Host, HostDetails, HostLabel, HostLabelsRequest } from './resources.ts'

const shared = { tag: 'Hosts', auth: 'bearer', project: 'none', adminOnly: true, addition: true } as const
const params = Type.Object({ host_id: text({ description: 'Id or name of the host.', examples: ['host-1'] }) })

export const hostOperations = operations({
  listHosts: {
    method: 'GET',
    path: '/v1/admin/hosts',
    summary: 'List hosts',
    description:
      'Lists every host of the installation by name, with its state and what is reserved on it. Hosts that were removed are left out. Only for administrators.',
    ...shared,
    scope: 'read',
    list: { order: ['name', 'id'], filters: ['name', 'status'] },
    answer: list(Host),
  },
  getHost: {
    method: 'GET',
    path: '/v1/admin/hosts/{host_id}',
    summary: 'Get a host',
    description:
      'Returns one host; while it is draining, also which VMs and volumes are still on it and what each waits for. Only for administrators.',
    ...shared,
    scope: 'read',
    params,
    answer: HostDetails,
  },
  cordonHost: {
    method: 'POST',
    path: '/v1/admin/hosts/{host_id}/cordon',
    summary: 'Cordon a host',
    description:
      'Keeps new VMs away from the host; those that run there stay. Repeating it changes nothing. Only for administrators.',
    ...shared,
    scope: 'admin',
    params,
    answer: Host,
  },
  uncordonHost: {
    method: 'POST',
    path: '/v1/admin/hosts/{host_id}/uncordon',
    summary: 'Uncordon a host',
    description:
      'Ends cordon and drain: the host takes new VMs again, beginning with those that wait for room. What was moved away does not come back. Only for administrators.',
    ...shared,
    scope: 'admin',
    params,
    answer: Host,
  },
  drainHost: {
    method: 'POST',
    path: '/v1/admin/hosts/{host_id}/drain',
    summary: 'Drain a host',
    description:
      'Cordons the host and moves its VMs and volumes to other hosts, without an outage of apps: VMs migrate while they run, or are replaced once their successor is healthy. The request returns at once; `GET /v1/admin/hosts/{host_id}` shows what is still there and why. Only for administrators.',
    ...shared,
    scope: 'admin',
    params,
    answer: Host,
  },
  setHostLabels: {
    method: 'PUT',
    path: '/v1/admin/hosts/{host_id}/labels',
    summary: 'Set the labels of a host',
    description:
      'Replaces the labels that were set with this operation. Those that the agent of the host is configured with stay, unless one of the same name is given. VMs that run stay where they are; VMs that wait for a host are placed again. Only for administrators.',
    ...shared,
    scope: 'admin',
    params,
    body: HostLabelsRequest,
    maxBytes: 64 << 10,
    answer: Host,
  },
  listHostLabels: {
    method: 'GET',
    path: '/v1/host-labels',
    summary: 'List the labels that apps can use',
    description:
      'Lists the labels by which apps can choose hosts, with the values that hosts have. Operators decide which labels these are (`MOTE_PUBLIC_LABELS`).',
    tag: 'Hosts',
    auth: 'bearer',
    project: 'none',
    addition: true,
    scope: 'read',
    list: { order: ['name'], filters: ['name'] },
    answer: list(HostLabel),
  },
  removeHost: {
    method: 'DELETE',
    path: '/v1/admin/hosts/{host_id}',
    summary: 'Remove a host',
    description:
      'Removes the host for good: reports of its agent are ignored from then on. The answer is 409 while VMs are on it, unless `force` is set. Only for administrators.',
    ...shared,
    scope: 'admin',
    params,
    query: Type.Object({
      force: Type.Optional(
        bool({
          default: false,
          description:
            'Gives up the VMs that are still there and replaces them on other hosts. Only for a host that never comes back: what still runs there is no longer managed, and volumes on it are out of reach.',
        }),
      ),
    }),
    fails: [409],
    answer: acknowledgement('removed'),
  },
})
