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
 * Requests that a host answers on `subjects.hostIn(id, verb)`, each within a second except as noted.
 * `vm.put` VmPut -> VmObserved; `vm.get` {vmId} -> VmObserved; `vm.list` {} -> {vms: VmObserved[]}; `vm.logs`
 * VmLogsRequest -> VmLogsAnswer or bytes, also for ids of builds; `logs.search` LogSearch -> LogSearchAnswer;
 * `logs.forget` LogForget -> {}; `vm.forget` VmForget -> VmObserved; `ping` {} -> {incarnation}; `snapshot.put`
 * SnapshotPut -> SnapshotObserved; `snapshot.get` {snapshotId} -> SnapshotObserved; `vm.exec` VmExec -> VmExecAnswer
 * (takes as long as its command); `vm.session` VmSession or SessionInput -> SessionAnswer or SessionOutput (a `read`
 * waits for output); `build.put` BuildPut -> BuildObserved.
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
/** Verbs for running VMs: a driver without the capability answers with code `unsupported_by_hypervisor`. */
export type RuntimeVerb = 'snapshot.put' | 'snapshot.get' | 'vm.exec' | 'vm.session'
export type BuildVerb = 'build.put'
/** `network.put` HostNetwork -> NetworkObserved. */
export type NetworkVerb = 'network.put'
/**
 * `volume.put` VolumePut -> VolumeObserved; `volume.get` {volumeId} -> VolumeObserved; `volume.snapshot`
 * VolumeSnapshotPut -> VolumeSnapshotObserved.
 */
export type VolumeVerb = 'volume.put' | 'volume.get' | 'volume.snapshot'

export const subjects = {
  hostIn: (hostId: string, verb: HostVerb | RuntimeVerb | VolumeVerb | NetworkVerb | BuildVerb) =>
    `host.${hostId}.in.${verb}`,
  /** HostHeartbeat */
  heartbeat: (hostId: string) => `host.${hostId}.out.beat`,
  /** VmObserved, published on every change of state, health or endpoint. */
  observed: (hostId: string) => `host.${hostId}.out.seen`,
  /** LogBatch */
  log: (at: { hostId: string; projectId: string; appId: string; deploymentId: string; vmId: string }) =>
    `log.${at.hostId}.${at.projectId}.${at.appId}.${at.deploymentId}.${at.vmId}`,
  /** SnapshotObserved */
  snapshot: (hostId: string) => `host.${hostId}.out.snapshot`,
  /** VolumeObserved */
  volume: (hostId: string) => `host.${hostId}.out.volume`,
  /** VolumeSnapshotObserved */
  volumeSnapshot: (hostId: string) => `host.${hostId}.out.volume-snapshot`,
  /** VolumeUsages */
  volumeUsage: (hostId: string) => `host.${hostId}.out.volume-usage`,
  allVolumes: 'host.*.out.volume',
  allVolumeSnapshots: 'host.*.out.volume-snapshot',
  allVolumeUsages: 'host.*.out.volume-usage',
  allSnapshots: 'host.*.out.snapshot',
  /** BuildObserved */
  build: (hostId: string) => `host.${hostId}.out.build`,
  allBuilds: 'host.*.out.build',
  /** SourceRequest -> SourcePart, answered by the control plane. */
  source: (hostId: string) => `host.${hostId}.out.source`,
  allSources: 'host.*.out.source',
  /** RegistryLoginRequest -> RegistryLoginAnswer, answered by the control plane. */
  registryLogin: (hostId: string) => `host.${hostId}.out.registry-login`,
  allRegistryLogins: 'host.*.out.registry-login',
  allHeartbeats: 'host.*.out.beat',
  allObserved: 'host.*.out.seen',
} as const

/** Prefix of the host's log line that gives the reason why an app is not healthy yet. */
export const unhealthyMark = 'not healthy yet: '
