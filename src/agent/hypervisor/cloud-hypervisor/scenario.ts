import type { Exchange } from '../transcript.ts'
import { diskConfig, vmConfig } from './config.ts'

/**
 * Calls that tests make to a real and a fake Cloud Hypervisor: all calls of the driver, and calls that must be refused.
 */
export type ScenarioCall = Pick<Exchange, 'method' | 'path' | 'body'>

export const scenarioTap = 'tapscenario'
/** URL of the snapshot directory: a relative path, as the driver uses. */
const snapshotUrl = 'file://snapshot'

const config = vmConfig({ vcpus: 1, memoryMib: 128, tap: scenarioTap, mac: '52:54:00:12:34:56', drives: [] })
const get = (path: string): ScenarioCall => ({ method: 'GET', path })
const put = (path: string, body?: unknown): ScenarioCall => ({ method: 'PUT', path, ...(body ? { body } : {}) })
const volume = diskConfig({ id: 'volume-1', serial: '1', path: 'volume.img', readOnly: false })

/** API calls to a newly started Cloud Hypervisor, in order. */
export const firstLife: readonly ScenarioCall[] = [
  get('/vmm.ping'),
  get('/nothing'),
  get('/vm.info'),
  put('/vm.boot'),
  put('/vm.pause'),
  put('/vm.create', { ...config, disks: 'none' }),
  put('/vm.create', config),
  get('/vm.info'),
  put('/vm.pause'),
  put('/vm.boot'),
  put('/vm.boot'),
  get('/vm.info'),
  put('/vm.resume'),
  put('/vm.snapshot', { destination_url: snapshotUrl }),
  put('/vm.resize', { desired_balloon: 33554432 }),
  put('/vm.resize', { desired_balloon: 'much' }),
  put('/vm.add-disk', volume),
  put('/vm.add-disk', volume),
  put('/vm.resize-disk', { id: 'volume-1', desired_size: 2 ** 21 }),
  put('/vm.resize-disk', { id: 'volume-1', desired_size: 2 ** 21 }),
  put('/vm.resize-disk', { id: 'absent', desired_size: 2 ** 21 }),
  put('/vm.resize-disk', { id: 'volume-1', desired_size: 'more' }),
  put('/vm.add-disk', diskConfig({ id: 'volume-2', serial: '2', path: 'absent.img', readOnly: true })),
  get('/vm.info'),
  put('/vm.remove-device', { id: 'absent' }),
  put('/vm.counters'),
  get('/vm.counters'),
  put('/vm.pause'),
  put('/vm.pause'),
  get('/vm.info'),
  put('/vm.snapshot', { destination_url: snapshotUrl }),
  put('/vm.snapshot', { destination_url: snapshotUrl }),
  put('/vm.resume'),
  put('/vm.send-migration', { destination_url: 'nowhere' }),
]

export const secondLife: readonly ScenarioCall[] = [
  put('/vm.restore', { source_url: 'file://absent' }),
  put('/vm.restore', { source_url: snapshotUrl }),
  get('/vm.info'),
  put('/vm.restore', { source_url: snapshotUrl }),
  put('/vm.resume'),
  put('/vm.resume'),
  get('/vm.info'),
]
