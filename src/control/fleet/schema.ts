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
      'Lists the hosts of the installation by name, with their state, capacity and reserved resources. Removed hosts are left out. Only for administrators.',
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
      'Returns one host; while it is draining, also the VMs and volumes that are still on it, each with the reason. Only for administrators.',
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
      'Excludes the host from the placement of new VMs; VMs that run on it stay. Repeating the request has no effect. Only for administrators.',
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
      'Ends the cordon and the drain: new VMs are placed on the host again, beginning with those that wait for capacity. VMs and volumes that were moved off the host do not move back. Only for administrators.',
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
      'Cordons the host and moves its VMs and volumes to other hosts without an outage of apps: VMs migrate while they run, or are replaced once their successors are healthy. The response is sent before this ends; `GET /v1/admin/hosts/{host_id}` shows which VMs and volumes are still on the host, and why. Only for administrators.',
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
      "Replaces the labels that were set with this operation. They override labels of the same name that the host's agent is configured with. Running VMs stay on their hosts; for VMs that wait for a host, placement is tried again. Only for administrators.",
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
    summary: 'List the host labels that apps can use',
    description:
      'Lists the labels by which apps can choose hosts, with their values on the hosts. Operators decide which labels these are (`MOTE_PUBLIC_LABELS`).',
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
      'Removes the host permanently: messages from its agent are ignored from then on. Responds with 409 while the host has VMs, unless `force` is set. Only for administrators.',
    ...shared,
    scope: 'admin',
    params,
    query: Type.Object({
      force: Type.Optional(
        bool({
          default: false,
          description:
            'Whether to remove the host even if it has VMs, which are then replaced on other hosts. Use it only for a host that never comes back: VMs that still run on it are no longer managed, and its volumes are no longer accessible.',
        }),
      ),
    }),
    fails: [409],
    answer: acknowledgement('removed'),
  },
})
