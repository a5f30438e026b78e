/** Schemas of the responses of host operations. */
import { type Static, Type } from 'typebox'
import { mostLabels } from '../../lib/labels.ts'
import { bool, dateTime, int64, list, oneOf, resource, stringMap, text, uuid } from '../http/types.ts'

const leaveState = () =>
  oneOf(['moving', 'waiting', 'staying'], {
    description:
      '`moving`: moving to another host. `waiting`: leaves without further action. `staying`: leaves only after an operator does what `reason` says.',
    examples: ['waiting'],
  })
const leaveReason = () =>
  text({
    description: 'What it waits for and what to do about it, as text for operators.',
    examples: ['Other VMs leave first: only a few VMs of a host move at a time, and one VM of a deployment.'],
  })
const project = () => uuid({ description: 'Project that owns it.' })

const LeavingVm = resource(
  'LeavingVm',
  {
    vm_id: uuid({ description: 'VM that is still on the host.' }),
    project_id: project(),
    app_name: text({ description: 'App that the VM runs, or the internal app of a database.', examples: ['shop'] }),
    job_id: text({ description: 'Deployment that the VM belongs to.', examples: ['job-4f9c2a7be1d06358'] }),
    state: leaveState(),
    reason: leaveReason(),
  },
  { description: 'VM that is still on a draining host.' },
)

const LeavingVolume = resource(
  'LeavingVolume',
  {
    volume_id: uuid({ description: 'Volume that is still on the host.' }),
    project_id: project(),
    name: text({ description: 'Name of the volume in its project.', examples: ['shop-data'] }),
    state: leaveState(),
    reason: leaveReason(),
  },
  { description: 'Volume without a VM that is still on a draining host.' },
)

const HostHypervisor = resource(
  'HostHypervisor',
  {
    name: text({
      description: '`firecracker`, `cloud-hypervisor`, `qemu`, or `fake` for a simulated one.',
      examples: ['qemu'],
    }),
    available: bool({ description: 'Whether VMs with it can run on the host.' }),
    detail: text({
      description: 'Version and acceleration, or why it is not available, as text for operators.',
      examples: ['kvm, QEMU 10.0.2'],
    }),
  },
  { description: 'Hypervisor that a host offers, or why it does not.' },
)

const amount = (description: string, example: number) => int64({ description, examples: [example] })

const labelExample = { region: 'eu', disk: 'nvme' }

export const HostLabelsRequest = resource('HostLabelsRequest', {
  labels: stringMap({
    maxProperties: mostLabels,
    description: 'All labels that are set here. Those of the agent stay, unless one of the same name is set here.',
    examples: [labelExample],
  }),
})

export const HostLabel = resource(
  'HostLabel',
  {
    name: text({ description: 'Name of the label.', examples: ['region'] }),
    values: list(text({ examples: ['eu'] }), { description: 'Values that hosts have.', examples: [['eu', 'us']] }),
  },
  { description: 'Label by which apps can choose hosts.' },
)

const cordonedText = 'Whether new VMs are kept away from the host.'
const drainingText = 'Whether its VMs and volumes are being moved to other hosts. A draining host is cordoned, too.'

export const Host = resource(
  'Host',
  {
    id: uuid({ description: 'UUID that the agent of the host chose when it first started.' }),
    name: text({ description: 'Host name, or the name that its agent is configured with.', examples: ['host-1'] }),
    status: oneOf(['up', 'suspected', 'lost'], {
      description:
        '`up`: its agent reports. `suspected`: its agent is silent, so nothing new is placed there. `lost`: silent for too long; its VMs are replaced on other hosts.',
    }),
    cordoned: bool({ description: cordonedText, examples: [false] }),
    draining: bool({ description: drainingText, examples: [false] }),
    version: text({ description: 'Version of the agent on the host.', examples: ['0.1.0'] }),
    arch: text({ description: 'Processor architecture of the host and its VMs: `x64` or `arm64`.', examples: ['x64'] }),
    network: text({
      description:
        '`tap`: VMs have private networks and security rules. `user`: the agent has no root, so VMs are reached through the gateway only. `fake`: simulated.',
      examples: ['tap'],
    }),
    hypervisors: list(HostHypervisor, { description: 'Hypervisors that the agent looked for.' }),
    vcpus: amount(
      'vCPUs that can be assigned to VMs: more than the host has processors, by the configured overcommit.',
      64,
    ),
    memory_mib: amount('Memory that can be assigned to VMs, in MiB. Never overcommitted.', 57_344),
    disk_mib: amount('Disk space for the writable disks of VMs, in MiB.', 409_600),
    used_vcpus: amount('vCPUs reserved for VMs.', 12),
    used_memory_mib: amount('Memory reserved for VMs, in MiB.', 12_288),
    used_disk_mib: amount('Disk space reserved for VMs, in MiB.', 49_152),
    vms: amount('VMs that belong on the host.', 9),
    strays: amount(
      'VMs that were replaced elsewhere while the host was silent and may still run on it. Their resources stay reserved.',
      0,
    ),
    labels: stringMap({
      description: 'Its labels: those of its agent, and those set here, which win.',
      examples: [labelExample],
    }),
    agent_labels: stringMap({ description: 'Labels that its agent is configured with.', examples: [{ region: 'eu' }] }),
    last_seen_at: dateTime({ description: 'When its agent last reported.' }),
    created_at: dateTime({ description: 'When its agent first reported.' }),
  },
  { description: 'Machine that runs VMs, with its capacity and what is reserved of it.' },
)
export type Host = Static<typeof Host>

export const HostDetails = resource(
  'HostDetails',
  {
    ...Host.properties,
    cordoned: bool({ description: cordonedText }),
    draining: bool({ description: drainingText }),
    leaving: Type.Optional(
      list(LeavingVm, {
        description:
          'VMs that are still on the host, at most 100, and what each waits for. Absent unless it is draining.',
      }),
    ),
    leaving_volumes: Type.Optional(
      list(LeavingVolume, {
        description:
          'Volumes without a VM that are still on the host, at most 100, and what each waits for. Absent unless it is draining.',
      }),
    ),
  },
  { description: 'Host, and while it is drained, what is still on it.' },
)
export type HostDetails = Static<typeof HostDetails>
