/** Schemas of the responses of the API operations on hosts. */
import { type Static, Type } from 'typebox'
import { mostLabels } from '../../lib/labels.ts'
import { bool, dateTime, int64, list, oneOf, resource, stringMap, text, uuid } from '../http/types.ts'

const leaveState = () =>
  oneOf(['moving', 'waiting', 'staying'], {
    description:
      'State of the VM or volume. `moving`: it is being moved to another host. `waiting`: it will leave without any action. `staying`: it leaves only after an operator has followed the advice in `reason`.',
    examples: ['waiting'],
  })
const leaveReason = () =>
  text({
    description: 'Why the VM or volume is still on the host, and what to do about it, as text for operators.',
    examples: ['Other VMs leave first: only a few VMs of a host move at a time, and one VM of a deployment.'],
  })
const project = () => uuid({ description: 'Id of the project that owns the VM or volume.' })

const LeavingVm = resource(
  'LeavingVm',
  {
    vm_id: uuid({ description: 'Id of the VM.' }),
    project_id: project(),
    app_name: text({
      description: 'Name of the app that the VM belongs to, which is an internal app for the VM of a database.',
      examples: ['shop'],
    }),
    job_id: text({
      description: 'Job id of the deployment that the VM belongs to.',
      examples: ['job-4f9c2a7be1d06358'],
    }),
    state: leaveState(),
    reason: leaveReason(),
  },
  { description: 'A VM that is still on a draining host.' },
)

const LeavingVolume = resource(
  'LeavingVolume',
  {
    volume_id: uuid({ description: 'Id of the volume.' }),
    project_id: project(),
    name: text({ description: 'Name of the volume.', examples: ['shop-data'] }),
    state: leaveState(),
    reason: leaveReason(),
  },
  { description: 'A volume that no VM uses and that is still on a draining host.' },
)

const HostHypervisor = resource(
  'HostHypervisor',
  {
    name: text({
      description: 'Name of the hypervisor: `firecracker`, `cloud-hypervisor`, `qemu`, or `fake` for a simulated one.',
      examples: ['qemu'],
    }),
    available: bool({ description: 'Whether the host can run VMs with this hypervisor.' }),
    detail: text({
      description:
        'Text for operators: version and acceleration of the hypervisor, or the reason why the hypervisor is not available.',
      examples: ['kvm, QEMU 10.0.2'],
    }),
  },
  { description: 'A hypervisor that a host offers, or could offer.' },
)

const amount = (description: string, example: number) => int64({ description, examples: [example] })

const labelExample = { region: 'eu', disk: 'nvme' }

export const HostLabelsRequest = resource('HostLabelsRequest', {
  labels: stringMap({
    maxProperties: mostLabels,
    description:
      'Labels to set; they replace all labels that were set with this operation before. They override labels of the same name that the agent is configured with.',
    examples: [labelExample],
  }),
})

export const HostLabel = resource(
  'HostLabel',
  {
    name: text({ description: 'Name of the label.', examples: ['region'] }),
    values: list(text({ examples: ['eu'] }), {
      description: 'Values of the label on the hosts.',
      examples: [['eu', 'us']],
    }),
  },
  { description: 'A label by which apps can choose hosts.' },
)

const cordonedText = 'Whether the host is cordoned, so that no new VMs are placed on it.'
const drainingText =
  "Whether the host's VMs and volumes are being moved to other hosts. A draining host is also cordoned."

export const Host = resource(
  'Host',
  {
    id: uuid({ description: 'UUID that the agent of the host chose when it first started.' }),
    name: text({
      description: 'Name of the host: its host name, or the name that its agent is configured with.',
      examples: ['host-1'],
    }),
    status: oneOf(['up', 'suspected', 'lost'], {
      description:
        "`up`: the host's agent sends heartbeats. `suspected`: heartbeats are missing, so no new VMs are placed on the host. `lost`: heartbeats have been missing for too long, and the host's VMs are replaced on other hosts.",
    }),
    cordoned: bool({ description: cordonedText, examples: [false] }),
    draining: bool({ description: drainingText, examples: [false] }),
    version: text({ description: 'Version of the agent on the host.', examples: ['0.1.0'] }),
    arch: text({ description: 'Processor architecture of the host and its VMs: `x64` or `arm64`.', examples: ['x64'] }),
    network: text({
      description:
        'Network mode of the host. `tap`: VMs have private networks and security rules. `user`: the agent does not run as root, so VMs are reachable through the gateway only. `fake`: simulated.',
      examples: ['tap'],
    }),
    hypervisors: list(HostHypervisor, {
      description: 'Hypervisors that the agent supports, and whether the host can run each.',
    }),
    vcpus: amount(
      'vCPUs that can be assigned to VMs: the number of processors multiplied by the configured overcommit factor.',
      64,
    ),
    memory_mib: amount('Memory that can be assigned to VMs, in MiB. Never overcommitted.', 57_344),
    disk_mib: amount('Disk space for the writable disks of VMs, in MiB.', 409_600),
    used_vcpus: amount('vCPUs reserved for VMs.', 12),
    used_memory_mib: amount('Memory reserved for VMs, in MiB.', 12_288),
    used_disk_mib: amount('Disk space reserved for VMs, in MiB.', 49_152),
    vms: amount('Number of VMs that are placed on the host.', 9),
    strays: amount(
      'Number of VMs that were replaced on other hosts while this host was lost, and that may still run on it. Their resources stay reserved.',
      0,
    ),
    labels: stringMap({
      description:
        'Labels of the host: those that its agent is configured with, overridden by those set with `PUT /v1/admin/hosts/{host_id}/labels`.',
      examples: [labelExample],
    }),
    agent_labels: stringMap({
      description: "Labels that the host's agent is configured with.",
      examples: [{ region: 'eu' }],
    }),
    last_seen_at: dateTime({ description: "When the host's agent last sent a heartbeat." }),
    created_at: dateTime({ description: "When the host's agent first sent a heartbeat." }),
  },
  { description: 'A host that runs VMs, with its capacity and the reserved part of it.' },
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
          'VMs that are still on the host, at most 100, each with the reason. Absent unless the host is draining.',
      }),
    ),
    leaving_volumes: Type.Optional(
      list(LeavingVolume, {
        description:
          'Volumes that no VM uses and that are still on the host, at most 100, each with the reason. Absent unless the host is draining.',
      }),
    ),
  },
  { description: 'A host and, while it is draining, the VMs and volumes that are still on it.' },
)
export type HostDetails = Static<typeof HostDetails>
