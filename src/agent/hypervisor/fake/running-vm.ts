import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { VmExecAnswer } from '../../../contract/agent.ts'
import { GuestFault } from '../../guest/fault.ts'
import type { Frame } from '../../guest/frames.ts'
import { StepError } from '../../base/step-error.ts'
import { type GuestState, runFileOf, saveGuest } from './guest.ts'
import { sendGuest } from './wire.ts'
import type { RunningVm, Running, VmHome, Watcher } from '../driver.ts'
import type { FakeHost, FakeVm } from './host.ts'
import { exitCodeOf, fakeSessions } from './sessions.ts'

export interface FakeVmParts {
  readonly host: FakeHost
  readonly home: VmHome
  readonly running: Running
  readonly watcher: Watcher
  readonly guest: GuestState
  /** `goes-on`: adopted after an agent restart, restored from a snapshot, or migrated; the guest ran before. */
  readonly origin: 'booted' | 'goes-on'
}

/** Simulates a command: `sleep` and Mote's own programs keep running, others print their arguments and exit. */
function runOnce(command: readonly string[], vm: Pick<FakeVm, 'say'>, endWith: (code: number) => void): void {
  if (command[0] === 'sleep' || command[0]?.startsWith('/.mote/')) return
  vm.say('stdout', command.slice(1).join(' '))
  endWith(exitCodeOf(command))
}

/** Builds the `RunningVm` of a simulated VM. */
export function fakeVm({ host, home, running, watcher, guest, origin }: FakeVmParts): RunningVm {
  const { vmId, spec } = home
  const fresh = origin === 'booted'
  const runFile = runFileOf(home)
  let balloonMib = spec.memoryMib
  const startedMs = performance.now()
  const isWell = spec.env.MOTE_FAKE !== 'unhealthy'
  const timers: NodeJS.Timeout[] = []
  let seq = fresh ? 0 : Date.now() // the first number after an adoption only has to be higher than all earlier ones
  const frame = (stream: Frame['stream'], line: string): Frame => ({ seq: ++seq, stream, ageUs: 0, line })
  const after = (ms: number, act: () => void) => timers.push(setTimeout(act, ms).unref())
  const forget = () => {
    for (const timer of timers) clearTimeout(timer)
    host.vms.delete(vmId)
  }
  const vm: FakeVm = {
    vmId,
    hostname: spec.hostname,
    deploymentId: spec.deploymentId,
    address: running.prepared.endpoint.host,
    healthy: false,
    paused: false,
    rxBytes: 0,
    txBytes: 0,
    ...guest,
    disks: new Map(),
    load: { cpu: 0.05, ramBytes: spec.memoryMib * 2 ** 18 },
    say: (stream, line) => watcher.onFrames([frame(stream, line)]),
    exit(code) {
      vm.healthy = false
      watcher.onExit(code)
    },
    babble: detail => watcher.onBroken(new GuestFault(detail)),
    die: detail => void end().then(() => watcher.onGone(detail)),
  }
  const startWorkload = () => {
    if (spec.command && spec.command[0] !== 'node')
      return runOnce(spec.command, vm, code => after(host.timing.healthyMs, () => vm.exit(code)))
    vm.say('stdout', `listening on port ${spec.port}`)
    if (spec.env.MOTE_FAKE === 'crash') after(host.timing.healthyMs, () => vm.exit(1))
    else if (isWell) after(fresh ? host.timing.healthyMs : 0, () => (vm.healthy = true))
  }
  const end = () => {
    forget()
    return rm(runFile, { force: true })
  }
  for (const { disk } of home.from?.disks ?? []) vm.disks.set(disk.volumeId, disk.mountPoint)
  host.vms.set(vmId, vm)
  if (host.timing.logEveryMs > 0)
    timers.push(setInterval(() => vm.say('stdout', `tick ${seq}`), host.timing.logEveryMs).unref())
  // Start the workload only after the caller has received the VM.
  if (fresh) after(0, startWorkload)
  else vm.healthy = isWell
  return {
    running,
    workload: { state: 'running' },
    inspect: async () => (vm.paused ? 'paused' : 'running'),
    probe: async () => vm.healthy && !vm.paused,
    startWorkload: () => host.pass('startWorkload', vmId, 0).then(startWorkload),
    listening: async () => vm.healthy,
    async stop() {
      await host.pass('stop', vmId, host.timing.stopMs)
      await end()
    },
    kill: end,
    pause: async () => {
      await host.pass('pause', vmId, 0)
      vm.paused = true
    },
    resume: async () => {
      await host.pass('resume', vmId, 0)
      vm.paused = false
    },
    stats: async () => {
      await host.pass('stats', vmId, 0)
      return { ...countersOf(vm, (performance.now() - startedMs) / 1000, spec.vcpus), balloonActualMib: balloonMib }
    },
    setBalloon: async targetMib => {
      balloonMib = targetMib ?? spec.memoryMib
    },
    ...programsOf(host, vm),
    snapshot: async dir => {
      await host.pass('snapshot', vmId, 0)
      return saveGuest(dir, { memory: vm.memory, identity: vm.identity }, running.prepared.imageDigest)
    },
    attachDisk: async disk => void vm.disks.set(disk.volumeId, disk.mountPoint),
    detachDisk: async disk => void vm.disks.delete(disk.volumeId),
    growDisk: async () => host.pass('growDisk', vmId, 0),
    async handOver(uri, onProgress, signal, _volumes, release) {
      await host.pass('handOver', vmId, host.timing.copyMs ?? 0, signal)
      onProgress({ percent: 50, transferredBytes: vm.load.ramBytes / 2, totalBytes: vm.load.ramBytes })
      await release?.()
      const stoppedMs = performance.now()
      await leave(vm, uri, signal)
      await end()
      return { downtimeMs: performance.now() - stoppedMs }
    },
    ack: () => undefined,
    detach: forget,
  }
}

const countersOf = ({ load, rxBytes, txBytes }: FakeVm, seconds: number, vcpus: number) => ({
  cpuSeconds: seconds * load.cpu * vcpus,
  ramUsedBytes: load.ramBytes,
  rxBytes,
  txBytes,
})

const programsOf = (host: FakeHost, vm: FakeVm): Pick<RunningVm, 'exec' | 'sessions'> => ({
  exec: (command, timeoutMs) => execFake(vm, command, timeoutMs),
  sessions: host.sessions?.(vm.vmId) ?? fakeSessions(),
})

async function execFake(vm: FakeVm, [program, ...rest]: readonly string[], timeoutMs: number): Promise<VmExecAnswer> {
  if (vm.paused) throw new StepError('invalid_state', 'the VM is paused')
  if (program === 'sleep') {
    const ms = Number(rest[0]) * 1000
    await sleep(Math.min(ms, timeoutMs))
    return { exitCode: ms > timeoutMs ? 124 : 0, stdout: '', stderr: '', truncated: false }
  }
  // The programs of database images succeed, as if the simulated guest ran a database server.
  const known = program === 'echo' || program?.startsWith('/usr/local/bin/mote-')
  const stdout = program === 'echo' ? `${rest.join(' ')}\n` : ''
  const stderr = known ? '' : `${program}: not found\n`
  return { exitCode: known ? 0 : 127, stdout, stderr, truncated: false }
}

/** Sends the guest to the other host. If that fails, the guest continues on this host. */
async function leave(vm: FakeVm, uri: string, signal: AbortSignal): Promise<void> {
  const { healthy, paused } = vm
  Object.assign(vm, { healthy: false, paused: true })
  try {
    await sendGuest(uri, { memory: vm.memory, identity: vm.identity }, signal)
  } catch (error) {
    Object.assign(vm, { healthy, paused })
    throw error
  }
}
