import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { Acknowledgement, bool, dateTime, int64, list, oneOf, resource, text, uuid } from '../http/types.ts'

const leaveState = () =>
  oneOf(['moving', 'waiting', 'staying'], {
    description: '`waiting`: its turn comes by itself. `staying`: only if somebody does what `reason` says.',
  })

const LeavingVm = resource('LeavingVm', {
  vm_id: uuid(),
  project_id: uuid(),
  app_name: text(),
  job_id: text(),
  state: leaveState(),
  reason: text(),
})

const LeavingVolume = resource('LeavingVolume', {
  volume_id: uuid(),
  project_id: uuid(),
  name: text(),
  state: leaveState(),
  reason: text(),
})

export const Host = resource('Host', {
  id: uuid(),
  name: text(),
  status: oneOf(['up', 'suspected', 'lost'], {
    description: '`suspected`: silent, nothing new is placed there. `lost`: given up, its VMs were replaced elsewhere.',
  }),
  cordoned: bool({ description: 'Gets no new VM.' }),
  draining: bool({ description: 'Its VMs are being replaced elsewhere.' }),
  version: text(),
  arch: text(),
  network: text(),
  hypervisors: list(resource('HostHypervisor', { name: text(), available: bool(), detail: text() })),
  vcpus: int64({ description: 'What may be promised, over-commitment included.' }),
  memory_mib: int64(),
  disk_mib: int64(),
  used_vcpus: int64(),
  used_memory_mib: int64(),
  used_disk_mib: int64(),
  vms: int64(),
  strays: int64({ description: 'VMs that were given up there and may still run; their room is kept.' }),
  last_seen_at: dateTime(),
  created_at: dateTime(),
  leaving: Type.Optional(
    list(LeavingVm, {
      description:
        'While it is drained, of a single host (GET): VMs that are still there (100 at most), and what each waits for.',
    }),
  ),
  leaving_volumes: Type.Optional(list(LeavingVolume, { description: 'The same of volumes that no VM has.' })),
})
export type Host = Static<typeof Host>

const shared = { tag: 'Hosts', auth: 'bearer', project: 'none', adminOnly: true, addition: true } as const
const params = Type.Object({ host_id: text({ description: 'Id or name.' }) })

export const hostOperations = operations({
  listHosts: {
    method: 'GET',
    path: '/v1/admin/hosts',
    summary: 'Every host, by name',
    ...shared,
    scope: 'read',
    list: { order: ['name', 'id'], filters: ['name', 'status'] },
    answer: list(Host),
  },
  getHost: {
    method: 'GET',
    path: '/v1/admin/hosts/{host_id}',
    summary: 'One host',
    ...shared,
    scope: 'read',
    params,
    answer: Host,
  },
  cordonHost: {
    method: 'POST',
    path: '/v1/admin/hosts/{host_id}/cordon',
    summary: 'Gives it no new VM; what runs there stays',
    ...shared,
    scope: 'admin',
    params,
    answer: Host,
  },
  uncordonHost: {
    method: 'POST',
    path: '/v1/admin/hosts/{host_id}/uncordon',
    summary: 'Ends cordon and drain',
    ...shared,
    scope: 'admin',
    params,
    answer: Host,
  },
  drainHost: {
    method: 'POST',
    path: '/v1/admin/hosts/{host_id}/drain',
    summary: 'Replaces its VMs on other hosts, one by one, without an outage',
    ...shared,
    scope: 'admin',
    params,
    answer: Host,
  },
  removeHost: {
    method: 'DELETE',
    path: '/v1/admin/hosts/{host_id}',
    summary: 'Takes a host away for good; one that still has VMs only with `force`',
    ...shared,
    scope: 'admin',
    params,
    query: Type.Object({ force: Type.Optional(bool({ default: false })) }),
    answer: Acknowledgement,
  },
})
