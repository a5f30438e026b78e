/**
 * A fake Cloud Hypervisor (v53) with its API, states, errors and migration protocol, so that the driver is tested where
 * the real program is absent. Unlike the real program, it rejects unknown fields. It runs no guest: for
 * kernels other than the tests' toy kernel (an ELF file), it acts as the guest's init.
 */
import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { type FakeGuest, serveFakeGuest } from '../hypervisor-guest.ts'
import {
  commands,
  passPayload,
  peerOver,
  readRequest,
  readResponse,
} from '../../../../src/agent/hypervisor/cloud-hypervisor/protocol.ts'
import { Config, Disk, int, strict, text } from './cloud-hypervisor-schemas.ts'

class Refused extends Error {
  readonly status: number
  constructor(status: number, reason: string) {
    super(reason)
    this.status = status
  }
}
const refuse = (status: number, ...reasons: string[]): never => {
  throw new Refused(status, reasons.join(': '))
}

const args = process.argv.slice(2)
if (args[0] === '--version') {
  process.stdout.write('cloud-hypervisor v53.0.0\n')
  process.exit(0)
}

let config: Config | undefined
let state: 'Created' | 'Running' | 'Paused' = 'Created'
let migrating = false
/** Disk sizes as the guest sees them, in bytes, by serial number. */
const sizes = new Map<string, number>()
let guest: FakeGuest | undefined

function isToy(kernel: string): boolean {
  return existsSync(kernel) && readFileSync(kernel).subarray(0, 4).equals(Buffer.from('\x7fELF', 'latin1'))
}

async function startVm(next: Config, first: typeof state): Promise<void> {
  for (const { path } of next.disks) {
    if (!existsSync(path)) refuse(500, 'Error from API', 'Cannot open disk path', 'No such file or directory', path)
  }
  const { initramfs } = next.payload
  if (initramfs !== null && !existsSync(initramfs))
    refuse(500, 'Error from API', 'Cannot open initramfs file', 'No such file or directory')
  config = next
  state = first
  if (isToy(next.payload.kernel)) return
  guest = await serveFakeGuest(next.vsock.socket, {
    onOff: () => process.exit(0),
    sizeOf: serial => sizes.get(serial) ?? 0,
    hasDisk: serial => config?.disks.some(disk => disk.serial === serial) ?? false,
    drive: serial => config?.disks.filter(disk => disk.serial === serial).map(disk => ({ readOnly: disk.readonly }))[0],
    paused: () => state !== 'Running',
  })
}

const running = (verb: string): Config => {
  if (migrating) refuse(500, 'Error from API', "VM is currently migrating and can't be modified")
  if (!config || state === 'Created')
    return refuse(500, 'Error from API', `The VM could not be ${verb}`, 'VM is not running')
  return config
}

function info(): unknown {
  if (!config) return refuse(404, 'Error from API', 'The VM info is not available', 'VM is not created')
  const memory_actual_size = config.memory.size - config.balloon.size
  if (state === 'Created') return { config, memory_actual_size, state }
  const device_tree = Object.fromEntries(config.disks.map(({ id }) => [id, {}]))
  return { config, device_tree, memory_actual_size, state }
}

interface Call {
  readonly schema?: ReturnType<typeof Type.Object>
  readonly act: (body: unknown) => unknown
}

const Url = (key: string) => Type.Object({ [key]: Type.String({ pattern: '^(file://|unix:)' }) }, strict)
const fileOf = (body: unknown, key: string) => String(Object(body)[key]).replace(/^(file:\/\/|unix:)/, '')

const calls: Readonly<Record<string, Call>> = {
  'GET /vmm.ping': { act: () => ({ build_version: 'v53.0.0', features: [], pid: process.pid, version: '53.0.0' }) },
  'GET /vm.info': { act: info },
  'GET /vm.counters': {
    act: () => Object.fromEntries([...running('asked').disks, { id: 'eth0' }].map(({ id }) => [id, {}])),
  },
  'PUT /vm.create': {
    schema: Config,
    act: body => {
      if (!Value.Check(Config, body)) return
      if (config) refuse(500, 'Error from API', 'The VM could not be created', 'VM is already created')
      config = body
    },
  },
  'PUT /vm.boot': {
    act: async () => {
      if (!config) return refuse(404, 'Error from API', 'The VM could not boot', 'VM config is missing')
      if (state !== 'Created') refuse(500, 'Error from API', 'The VM could not boot', 'VM is already created')
      await startVm(config, 'Running')
    },
  },
  'PUT /vm.pause': {
    act: () => {
      running('paused')
      if (state === 'Paused') refuse(500, 'Error from API', 'Invalid transition')
      state = 'Paused'
    },
  },
  'PUT /vm.resume': {
    act: () => {
      running('resumed')
      if (state === 'Running') refuse(500, 'Error from API', 'Invalid transition')
      state = 'Running'
    },
  },
  'PUT /vm.resize': {
    schema: Type.Object({ desired_balloon: int }, strict),
    act: body => {
      running('resized').balloon.size = Number(Object(body).desired_balloon)
    },
  },
  'PUT /vm.add-disk': {
    schema: Disk,
    act: body => {
      const { disks } = running('changed')
      if (!Value.Check(Disk, body)) return
      if (disks.some(({ id }) => id === body.id)) refuse(500, 'Error from API', `Identifier ${body.id} is not unique`)
      if (!existsSync(body.path)) refuse(500, 'Error from API', 'Cannot open disk path')
      disks.push(body)
      sizes.set(body.serial, statSync(body.path).size)
      return { id: body.id, bdf: '0000:00:09.0' }
    },
  },
  'PUT /vm.resize-disk': {
    schema: Type.Object({ id: text, desired_size: int }, strict),
    act: body => {
      const { id, desired_size } = Object(body)
      const disk = running('changed').disks.find(one => one.id === id)
      if (!disk) return refuse(500, 'Error from API', 'The disk could not be resized', `no such device: ${id}`)
      truncateSync(disk.path, desired_size)
      sizes.set(disk.serial, desired_size)
    },
  },
  'PUT /vm.remove-device': {
    schema: Type.Object({ id: text }, strict),
    act: body => {
      const vm = running('changed')
      const id = String(Object(body).id)
      if (!vm.disks.some(disk => disk.id === id)) refuse(500, 'Error from API', 'Failed to find device', id)
      // Remove the disk after 20 ms, because a real guest takes a moment to release it.
      setTimeout(() => (vm.disks = vm.disks.filter(disk => disk.id !== id)), 20)
    },
  },
  'PUT /vm.snapshot': {
    schema: Url('destination_url'),
    act: body => {
      const vm = running('snapshotted')
      const dir = fileOf(body, 'destination_url')
      if (state !== 'Paused') refuse(500, 'Error from API', 'Trying to snapshot while VM is running')
      if (!existsSync(dir)) refuse(500, 'Error from API', 'Destination is not a directory', dir)
      if (readdirSync(dir).length > 0) refuse(500, 'Error from API', 'File exists')
      writeFileSync(join(dir, 'config.json'), JSON.stringify(vm))
      writeFileSync(join(dir, 'state.json'), JSON.stringify({ state, devices: vm.disks.map(({ id }) => id) }))
      writeFileSync(join(dir, 'memory-ranges'), Buffer.alloc(4096, 1))
    },
  },
  'PUT /vm.restore': {
    schema: Url('source_url'),
    act: async body => {
      if (config) refuse(500, 'Error from API', 'The VM could not be restored', 'VM is already created')
      const dir = fileOf(body, 'source_url')
      for (const name of ['config.json', 'state.json', 'memory-ranges'])
        if (!existsSync(join(dir, name))) refuse(500, 'Error from API', 'The VM could not be restored', name)
      const saved: unknown = JSON.parse(readFileSync(join(dir, 'config.json'), 'utf8'))
      if (!Value.Check(Config, saved)) return refuse(500, 'Error from API', 'The VM could not be restored')
      // Each disk must have the same id as in the snapshot, because the real program finds device states by id.
      const { devices } = Object(JSON.parse(readFileSync(join(dir, 'state.json'), 'utf8')))
      for (const { id } of saved.disks)
        if (!devices.includes(id)) refuse(500, 'Error from API', 'The VM could not be restored', `no state of ${id}`)
      await startVm(saved, 'Paused')
    },
  },
  'PUT /vm.send-migration': {
    schema: Type.Object({ destination_url: text }, strict),
    act: body => {
      const vm = running('migrated')
      const url = String(Object(body).destination_url)
      if (!url.startsWith('unix:')) refuse(500, 'Error from API', 'Error validating send migration parameters')
      migrating = true
      void sendVm(vm, url.slice('unix:'.length))
    },
  },
  'PUT /vm.receive-migration': {
    schema: Url('receiver_url'),
    act: body => {
      if (config) refuse(500, 'Error from API', 'VM is already created')
      return receiveVm(fileOf(body, 'receiver_url'))
    },
  },
}

function request(command: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(16)
  header.writeUInt16LE(command, 0)
  header.writeBigUInt64LE(BigInt(payload.length), 8)
  return Buffer.concat([header, payload])
}

/** Returns a migration message with the VM's memory: one range with one page. */
function memory(): Buffer {
  const table = Buffer.alloc(16)
  table.writeBigUInt64LE(4096n, 8)
  return Buffer.concat([request(commands.memory, table), Buffer.alloc(4096, 7)])
}

async function sendVm(vm: Config, path: string): Promise<void> {
  const wasRunning = state === 'Running'
  const socket = connect(path)
  const peer = peerOver(socket)
  const say = async (data: Buffer) => {
    await peer.send(data)
    if (!(await readResponse(peer.from)).ok) throw new Error('the receiver reported an error')
  }
  try {
    await say(request(commands.start))
    await say(request(commands.config, Buffer.from(JSON.stringify({ vm_config: vm }))))
    await say(memory())
    state = 'Paused'
    await say(memory())
    await say(request(commands.state, Buffer.from('{}')))
    await say(request(wasRunning ? commands.complete : commands.completePaused))
    process.exit(0)
  } catch {
    if (wasRunning) state = 'Running'
    migrating = false
    peer.close()
  }
}

const Migrated = Type.Object({ vm_config: Config })

function receiveVm(path: string): Promise<undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket: Socket) => {
      server.close()
      take(socket).then(() => resolve(undefined), reject)
    }).listen(path)
  })
}

async function take(socket: Socket): Promise<void> {
  const peer = peerOver(socket)
  const response = Buffer.alloc(16)
  response.writeUInt16LE(1, 0)
  let arriving: Config | undefined
  for (;;) {
    const next = await readRequest(peer.from)
    const parts: Buffer[] = []
    await passPayload(next, peer.from, async data => void parts.push(data))
    if (next.command === commands.config) {
      const value: unknown = JSON.parse(Buffer.concat(parts).toString())
      if (!Value.Check(Migrated, value)) throw new Refused(500, 'bad settings')
      arriving = value.vm_config
    }
    const isLast = next.command === commands.complete || next.command === commands.completePaused
    if (isLast && arriving) await startVm(arriving, next.command === commands.complete ? 'Running' : 'Paused')
    await peer.send(response)
    if (isLast) return
  }
}

async function answer(method: string, path: string, body: string): Promise<unknown> {
  const call = calls[`${method} ${path}`]
  if (!call) {
    if (calls[`GET ${path}`]) return refuse(400, 'Bad Request')
    return refuse(404, 'Not Found')
  }
  if (!call.schema) return body === '' ? call.act(undefined) : refuse(400, 'Bad Request')
  const value: unknown = body === '' ? undefined : JSON.parse(body)
  // Do not validate a migration target here: the real program accepts a bad target, and then reports a failed
  // migration.
  const isMigration = path === '/vm.send-migration'
  if (!isMigration && !Value.Check(call.schema, value)) return refuse(400, 'Failed to deserialize JSON')
  return call.act(value)
}

const socket = args[args.indexOf('--api-socket') + 1]?.replace(/^path=/, '')
createHttp((incoming, response) => {
  let body = ''
  incoming.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
  incoming.on('end', () => {
    answer(incoming.method ?? '', (incoming.url ?? '').replace(/^\/api\/v1/, ''), body).then(
      value => {
        response.writeHead(value === undefined ? 204 : 200)
        response.end(value === undefined ? '' : JSON.stringify(value))
      },
      (error: unknown) => {
        const status = error instanceof Refused ? error.status : 500
        response
          .writeHead(status)
          .end(JSON.stringify(String(error instanceof Error ? error.message : error).split(': ')))
      },
    )
  })
}).listen(socket)
process.on('exit', () => guest?.close())
