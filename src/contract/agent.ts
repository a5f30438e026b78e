/**
 * The wire format between `control` and `agent`: schemas, types and subjects. Each side parses its input with these
 * schemas, so a program of an incompatible version fails with a clear message.
 * Control sends a desired state (`vm.put`, complete and with a generation) and the agent answers at once with the state
 * it observes. Slow work happens in the agent's own loop; changes are published as `VmObserved`, heartbeats carry the
 * rest.
 */
export * from './agent/build.ts'
export * from './agent/host.ts'
export * from './agent/log.ts'
export * from './agent/log-search.ts'
export * from './agent/registry.ts'
export * from './agent/session.ts'
export * from './agent/session-bytes.ts'
export * from './agent/storage.ts'
export * from './agent/vm.ts'

/**
 * Requests that a host answers on `subjects.hostIn(id, verb)`, each within a second unless noted otherwise. `A -> B`:
 * the request has the type A, the reply B. `vm.put` VmPut -> VmObserved; `vm.get` {vmId} -> VmObserved; `vm.list` {} ->
 * {vms: VmObserved[]}; `vm.logs` VmLogsRequest -> VmLogsAnswer or bytes, also for ids of builds; `logs.search`
 * LogSearch -> LogSearchAnswer; `logs.forget` LogForget -> {}; `vm.forget` VmForget -> VmObserved; `ping` {} ->
 * {incarnation}; `snapshot.put` SnapshotPut -> SnapshotObserved; `snapshot.get` {snapshotId} -> SnapshotObserved;
 * `vm.exec` VmExec -> VmExecAnswer (takes as long as its command); `vm.session` VmSession or SessionInput ->
 * SessionAnswer or SessionOutput (a `read` waits for output); `build.put` BuildPut -> BuildObserved.
 */
export type HostVerb =
  | 'vm.put'
  | 'vm.get'
  | 'vm.list'
  | 'vm.logs'
  | 'vm.forget'
  | 'logs.search'
  | 'logs.forget'
  | 'ping'
/**
 * Verbs for running VMs. If the VM's hypervisor lacks the capability, the host answers with code
 * `unsupported_by_hypervisor`.
 */
export type RuntimeVerb = 'snapshot.put' | 'snapshot.get' | 'vm.exec' | 'vm.session'
export type BuildVerb = 'build.put'
/** Verb for the host's network: the request has the type HostNetwork, the reply NetworkObserved. */
export type NetworkVerb = 'network.put'
/**
 * Verbs for volumes, with the types of request and reply: `volume.put` VolumePut -> VolumeObserved; `volume.get`
 * {volumeId} -> VolumeObserved; `volume.snapshot` VolumeSnapshotPut -> VolumeSnapshotObserved.
 */
export type VolumeVerb = 'volume.put' | 'volume.get' | 'volume.snapshot'

export const subjects = {
  hostIn: (hostId: string, verb: HostVerb | RuntimeVerb | VolumeVerb | NetworkVerb | BuildVerb) =>
    `host.${hostId}.in.${verb}`,
  /** Subject of a host's heartbeats (type HostHeartbeat). */
  heartbeat: (hostId: string) => `host.${hostId}.out.beat`,
  /** Subject of a host's VM reports (type VmObserved), published on every change of state, health or endpoint. */
  observed: (hostId: string) => `host.${hostId}.out.seen`,
  /** Subject of a VM's log lines (type LogBatch). */
  log: (at: { hostId: string; projectId: string; appId: string; deploymentId: string; vmId: string }) =>
    `log.${at.hostId}.${at.projectId}.${at.appId}.${at.deploymentId}.${at.vmId}`,
  /** Subject of a host's reports about VM snapshots (type SnapshotObserved). */
  snapshot: (hostId: string) => `host.${hostId}.out.snapshot`,
  /** Subject of a host's reports about volumes (type VolumeObserved). */
  volume: (hostId: string) => `host.${hostId}.out.volume`,
  /** Subject of a host's reports about volume snapshots (type VolumeSnapshotObserved). */
  volumeSnapshot: (hostId: string) => `host.${hostId}.out.volume-snapshot`,
  /** Subject of a host's reports about the space that volumes use (type VolumeUsages). */
  volumeUsage: (hostId: string) => `host.${hostId}.out.volume-usage`,
  allVolumes: 'host.*.out.volume',
  allVolumeSnapshots: 'host.*.out.volume-snapshot',
  allVolumeUsages: 'host.*.out.volume-usage',
  allSnapshots: 'host.*.out.snapshot',
  /** Subject of a host's reports about builds (type BuildObserved). */
  build: (hostId: string) => `host.${hostId}.out.build`,
  allBuilds: 'host.*.out.build',
  /**
   * Subject of a host's requests for an uploaded source. The control plane answers a SourceRequest with a SourcePart.
   */
  source: (hostId: string) => `host.${hostId}.out.source`,
  allSources: 'host.*.out.source',
  /**
   * Subject of a host's requests for registry credentials. The control plane answers a RegistryLoginRequest with a
   * RegistryLoginAnswer.
   */
  registryLogin: (hostId: string) => `host.${hostId}.out.registry-login`,
  allRegistryLogins: 'host.*.out.registry-login',
  allHeartbeats: 'host.*.out.beat',
  allObserved: 'host.*.out.seen',
} as const

/** Prefix of the line that a host writes into a VM's log to explain why the app is not healthy yet. */
export const unhealthyMark = 'not healthy yet: '
