/**
 * A fake Firecracker (v1.16) with its API, required order of calls and errors, so that the driver is tested where the
 * real program is absent. A test compares it with recorded responses of the real program (`transcripts.json`). It runs
 * no guest: for kernels other than the tests' toy kernel (an ELF file), it acts as the guest's init.
 */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { type FakeGuest, serveFakeGuest } from '../hypervisor-guest.ts'
import { bucket, Drive, int, limiter, Load, SavedState, strict, text } from './firecracker-schemas.ts'

class Refused extends Error {}
const refuse = (reason: string): never => {
  throw new Refused(reason)
}

const args = process.argv.slice(2)
if (args[0] === '--version') {
  process.stdout.write('Firecracker v1.16.1\n')
  process.exit(0)
}
if (args[0] === '--snapshot-version') {
  process.stdout.write('v10.0.0\n')
  process.exit(0)
}

let state: 'Not started' | 'Running' | 'Paused' = 'Not started'
let touched = false
let kernel: string | undefined
let kernelArgs: readonly string[] = []
let memoryMib = 128
let amountMib = 0
let balloon = false
let vsock: string | null = null
let hasGuest = false
let deaf = false
let guest: FakeGuest | undefined
/**
 * Drives by id. `bytes` is the size of the file when the drive was configured, which is the size that the guest sees.
 */
const drives = new Map<string, { file: string; bytes: number; root: boolean; readOnly: boolean }>()
const fileNamed = (file: string) => ({ file, bytes: statSync(file).size })

/** Returns the serial number that the real program derives from a file (see `driveSerial`). */
function serialOf(file: string): string {
  const { dev, rdev, ino } = statSync(file, { bigint: true })
  return `${dev}${rdev}${ino}`.slice(0, 20)
}

async function startGuest(): Promise<void> {
  if (vsock === null) return
  if (existsSync(vsock)) refuse('Vsock: address in use')
  if (!hasGuest) return
  guest = await serveFakeGuest(vsock, {
    onOff: () => process.exit(0),
    hasDisk: serial => [...drives.values()].some(({ file }) => serialOf(file) === serial),
    sizeOf: serial => [...drives.values()].find(({ file }) => serialOf(file) === serial)?.bytes ?? 0,
    drive: serial => {
      const given = kernelArgs.find(arg => arg.startsWith(`mote.${serial}=`))?.split('=')[1] ?? serial
      return [...drives.values()].find(({ file }) => serialOf(file) === given)
    },
    paused: () => deaf || state === 'Paused',
  })
}

function before(): void {
  if (state !== 'Not started') refuse('The requested operation is not supported after starting the microVM.')
}
function after(): void {
  if (state === 'Not started') refuse('The requested operation is not supported before starting the microVM.')
}
const openable = (file: string) => existsSync(file) || refuse(`No such file or directory (os error 2) ${file}`)

interface Call {
  /** Schema of the request body; undefined if the call accepts none. */
  readonly schema?: ReturnType<typeof Type.Object>
  readonly act: (body: Readonly<Record<string, unknown>>, id: string) => unknown
}

const calls: Readonly<Record<string, Call>> = {
  'GET /version': { act: () => ({ firecracker_version: '1.16.1' }) },
  'GET /': {
    act: () => ({ app_name: 'Firecracker', id: args[args.indexOf('--id') + 1], state, vmm_version: '1.16.1' }),
  },
  'GET /balloon': {
    act: () =>
      balloon
        ? {
            amount_mib: amountMib,
            deflate_on_oom: true,
            stats_polling_interval_s: 1,
            free_page_hinting: false,
            free_page_reporting: true,
          }
        : refuse('no balloon'),
  },
  'GET /balloon/statistics': {
    act: () => {
      after()
      const mib = 2 ** 20
      return {
        target_mib: amountMib,
        actual_mib: amountMib,
        target_pages: amountMib * 256,
        actual_pages: amountMib * 256,
        total_memory: memoryMib * mib,
        available_memory: (memoryMib - 32) * mib,
      }
    },
  },
  'GET /vm/config': {
    act: () => ({
      balloon: {},
      'boot-source': {},
      'cpu-config': null,
      entropy: {},
      logger: null,
      'machine-config': {},
      'memory-hotplug': null,
      metrics: null,
      'mmds-config': null,
      'network-interfaces': [],
      pmem: [],
      vsock: {},
      drives: [...drives].map(([drive_id, { file }]) => ({ drive_id, path_on_host: file })),
    }),
  },
  'PUT /serial': {
    schema: Type.Object({ serial_out_path: text, rate_limiter: Type.Optional(bucket) }, strict),
    act: before,
  },
  'PUT /machine-config': {
    schema: Type.Object({ vcpu_count: int, mem_size_mib: int, smt: Type.Optional(Type.Boolean()) }, strict),
    act: body => {
      before()
      touched = true
      memoryMib = Number(body.mem_size_mib)
    },
  },
  'PUT /boot-source': {
    schema: Type.Object(
      { kernel_image_path: text, initrd_path: Type.Optional(text), boot_args: Type.Optional(text) },
      strict,
    ),
    act: body => {
      before()
      touched = true
      openable(String(body.kernel_image_path))
      kernel = String(body.kernel_image_path)
      kernelArgs = String(body.boot_args ?? '').split(' ')
    },
  },
  'PUT /drives/*': {
    schema: Drive,
    act: (body, id) => {
      if (!/^\w+$/.test(id)) refuse('API Resource IDs can only contain alphanumeric characters and underscores.')
      if (body.drive_id !== id) refuse('The id from the path does not match the id from the body!')
      before()
      openable(String(body.path_on_host))
      touched = true
      drives.set(id, {
        ...fileNamed(String(body.path_on_host)),
        root: body.is_root_device === true,
        readOnly: body.is_read_only === true,
      })
    },
  },
  'PATCH /drives/*': {
    schema: Type.Object({ drive_id: text, path_on_host: Type.Optional(text), rate_limiter: limiter }, strict),
    act: (body, id) => {
      after()
      const drive = drives.get(id) ?? refuse('Drive config error: Device not found')
      openable(String(body.path_on_host))
      drives.set(id, { ...drive, ...fileNamed(String(body.path_on_host)) })
    },
  },
  'PUT /network-interfaces/*': {
    schema: Type.Object(
      { iface_id: text, host_dev_name: text, guest_mac: text, rx_rate_limiter: limiter, tx_rate_limiter: limiter },
      strict,
    ),
    act: before,
  },
  'PUT /vsock': {
    schema: Type.Object({ guest_cid: int, uds_path: text }, strict),
    act: body => {
      before()
      touched = true
      vsock = String(body.uds_path)
    },
  },
  'PUT /balloon': {
    schema: Type.Object(
      {
        amount_mib: int,
        deflate_on_oom: Type.Boolean(),
        stats_polling_interval_s: Type.Optional(int),
        free_page_reporting: Type.Optional(Type.Boolean()),
      },
      strict,
    ),
    act: () => {
      before()
      balloon = true
    },
  },
  'PATCH /balloon': {
    schema: Type.Object({ amount_mib: int }, strict),
    act: body => {
      after()
      // Only a guest with a balloon driver activates the device; the toy kernel has none.
      if (!hasGuest) refuse('Balloon update error: Balloon: Device not activated yet.')
      if (Number(body.amount_mib) > memoryMib) refuse('Balloon update error: Amount of pages requested is too large.')
      amountMib = Number(body.amount_mib)
    },
  },
  'PUT /entropy': { schema: Type.Object({ rate_limiter: limiter }, strict), act: before },
  'PUT /actions': {
    schema: Type.Object({ action_type: Type.Enum(['InstanceStart', 'FlushMetrics', 'SendCtrlAltDel']) }, strict),
    act: async () => {
      before()
      if (kernel === undefined) return refuse('Cannot start microvm without kernel configuration.')
      hasGuest = !readFileSync(kernel).subarray(0, 4).equals(Buffer.from('\x7fELF', 'latin1'))
      await startGuest()
      state = 'Running'
    },
  },
  'PATCH /vm': {
    schema: Type.Object({ state: Type.Enum(['Paused', 'Resumed']) }, strict),
    act: body => {
      after()
      // The real program accepts a request to resume a running VM, but the guest then receives nothing more over vsock.
      if (body.state === 'Resumed' && state === 'Running') deaf = true
      state = body.state === 'Paused' ? 'Paused' : 'Running'
    },
  },
  'PUT /snapshot/create': {
    schema: Type.Object(
      { snapshot_type: Type.Enum(['Full', 'Diff']), snapshot_path: text, mem_file_path: text },
      strict,
    ),
    act: body => {
      after()
      if (state !== 'Paused') refuse('Create snapshot error: save/restore unavailable while running')
      const files = Object.fromEntries([...drives].map(([id, { file }]) => [id, file]))
      const saved = { drives: files, vsock, guest: hasGuest, amountMib, memoryMib }
      writeFileSync(String(body.snapshot_path), JSON.stringify(saved))
      writeFileSync(String(body.mem_file_path), Buffer.alloc(memoryMib * 1024, 1))
      guest?.cut()
    },
  },
  'PUT /snapshot/load': {
    schema: Load,
    act: async body => {
      before()
      if (touched) refuse('Loading a microVM snapshot not allowed after configuring boot-specific resources.')
      if (!Value.Check(Load, body)) return refuse('not a request to load')
      openable(body.mem_backend.backend_path)
      const saved: unknown = JSON.parse(readFileSync(body.snapshot_path, 'utf8'))
      if (!Value.Check(SavedState, saved)) return refuse('Load snapshot error')
      for (const [id, file] of Object.entries(saved.drives)) {
        if (!existsSync(file)) process.exit(1) // the real program also exits if a disk is missing
        drives.set(id, { ...fileNamed(file), root: false, readOnly: false })
      }
      ;({ vsock, amountMib, memoryMib } = saved)
      hasGuest = saved.guest
      balloon = true
      state = body.resume_vm === true ? 'Running' : 'Paused'
      await startGuest()
    },
  },
}

function find(method: string, path: string): { call: Call; id: string } | undefined {
  const exact = calls[`${method} ${path}`]
  if (exact) return { call: exact, id: '' }
  const [, folder = '', id = ''] = path.split('/')
  const named = calls[`${method} /${folder}/*`]
  return named && { call: named, id }
}

async function answer(method: string, path: string, body: string): Promise<unknown> {
  const found = find(method, path)
  if (!found) return refuse(`Invalid request method and/or path: ${method} ${path.slice(1)}.`)
  const { call, id } = found
  if (!call.schema) return call.act({}, id)
  const value: unknown = JSON.parse(body)
  if (!Value.Check(call.schema, value)) return refuse('An error occurred when deserializing the json body of a request')
  return call.act(value, id)
}

const socket = args[args.indexOf('--api-sock') + 1]
if (existsSync(socket ?? '')) process.exit(1)
createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
  request.on('end', () => {
    answer(request.method ?? '', request.url ?? '', body).then(
      value => {
        response.writeHead(value === undefined ? 204 : 200)
        response.end(value === undefined ? '' : JSON.stringify(value))
      },
      (error: unknown) => {
        response.writeHead(400).end(JSON.stringify({ fault_message: String(error) }))
      },
    )
  })
}).listen(socket)
