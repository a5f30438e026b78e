import type { VmmMethod } from '../vmm-http.ts'
import { bootCalls, loadCall } from './requests.ts'

/** Calls that tests make to a real and a fake Firecracker: all calls of the driver, and calls that must be refused. */
export interface ScenarioCall {
  readonly method: VmmMethod
  readonly path: string
  readonly body?: unknown
}

export const scenarioTap = 'tapscenario-fc'
export const scenarioMac = '52:54:00:12:34:56'
const serials = { base: 'a', scratch: 'b', config: 'c' }
const boot = bootCalls({ vcpus: 1, memoryMib: 128, tap: scenarioTap, mac: scenarioMac, drives: [], serials })

const get = (path: string): ScenarioCall => ({ method: 'GET', path })
const put = (path: string, body: unknown): ScenarioCall => ({ method: 'PUT', path, body })
const patch = (path: string, body: unknown): ScenarioCall => ({ method: 'PATCH', path, body })
const snapshot = { snapshot_type: 'Full', snapshot_path: 'state', mem_file_path: 'memory' }

/** API calls to a newly started Firecracker, in order. The second process loads the snapshot that these calls take. */
export const firstLife: readonly ScenarioCall[] = [
  get('/version'),
  get('/'),
  get('/nothing'),
  patch('/vm', { state: 'Paused' }),
  put('/snapshot/create', snapshot),
  patch('/drives/rw0', { drive_id: 'rw0', path_on_host: 'volume.img' }),
  get('/balloon/statistics'),
  put('/machine-config', { vcpu_count: 1 }),
  put('/machine-config', { vcpu_count: 1, mem_size_mib: 128, memory: 1 }),
  put('/machine-config', { vcpu_count: 'one', mem_size_mib: 128 }),
  put('/drives/a-b', { drive_id: 'a-b', path_on_host: 'empty.img', is_root_device: false, is_read_only: false }),
  put('/drives/one', { drive_id: 'two', path_on_host: 'empty.img', is_root_device: false, is_read_only: false }),
  put('/drives/none', { drive_id: 'none', path_on_host: 'absent.img', is_root_device: false, is_read_only: false }),
  put('/vsock', { guest_cid: 2, uds_path: 'vsock.sock' }),
  put('/actions', { action_type: 'InstanceStart' }),
  ...boot,
  get('/'),
  put('/actions', { action_type: 'InstanceStart' }),
  put('/boot-source', { kernel_image_path: 'vmlinux' }),
  put('/machine-config', { vcpu_count: 1, mem_size_mib: 128 }),
  put('/snapshot/create', snapshot),
  put('/snapshot/load', loadCall(scenarioTap).body),
  patch('/balloon', { amount_mib: 32 }),
  patch('/balloon', { amount_mib: 4096 }),
  patch('/balloon', { amount_mib: 0, deflate_on_oom: true }),
  get('/balloon'),
  patch('/drives/rw0', { drive_id: 'rw0', path_on_host: 'volume.img' }),
  patch('/drives/rw0', { drive_id: 'rw0', path_on_host: 'volume.img' }),
  get('/vm/config'),
  patch('/drives/rw0', { drive_id: 'rw0', path_on_host: 'empty.img' }),
  patch('/drives/absent', { drive_id: 'absent', path_on_host: 'empty.img' }),
  patch('/drives/rw1', { drive_id: 'rw1', path_on_host: 'absent.img' }),
  // The snapshot taken below includes this volume.
  patch('/drives/rw2', { drive_id: 'rw2', path_on_host: 'volume.img' }),
  patch('/vm', { state: 'Stopped' }),
  patch('/vm', { state: 'Paused' }),
  patch('/vm', { state: 'Paused' }),
  get('/'),
  put('/snapshot/create', snapshot),
  patch('/vm', { state: 'Resumed' }),
  patch('/vm', { state: 'Resumed' }),
]

export const secondLife: readonly ScenarioCall[] = [
  put('/serial', { serial_out_path: 'console' }),
  put('/snapshot/load', { snapshot_path: 'state' }),
  put('/snapshot/load', { ...Object(loadCall(scenarioTap).body), mem_file_path: 'memory' }),
  put('/snapshot/load', loadCall(scenarioTap).body),
  get('/'),
  get('/vm/config'),
  // A clone replaces the snapshot's volume before the guest runs.
  patch('/drives/rw2', { drive_id: 'rw2', path_on_host: 'clone.img' }),
  get('/balloon'),
  put('/snapshot/load', loadCall(scenarioTap).body),
  patch('/vm', { state: 'Resumed' }),
  get('/'),
  patch('/drives/rw0', { drive_id: 'rw0', path_on_host: 'volume.img' }),
]
