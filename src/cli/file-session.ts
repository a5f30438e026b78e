/** Runs one file operation in a VM, such as listing or unpacking, as a VM session. */
import { connectSession, type FileAction } from '../client/index.ts'
import type { Call } from './verb.ts'

export interface VmPlace {
  readonly app_name: string
  readonly job_id: string
  readonly vm_id?: string | undefined
  readonly user?: string | undefined
}

export interface FileStreams {
  /** Data that the file operation reads, such as an archive to unpack. */
  readonly input?: AsyncIterable<Uint8Array> | undefined
  /** Called with each chunk of output; the next chunk is delivered once the returned promise is settled. */
  readonly onOutput?: (data: Uint8Array) => void | Promise<void>
  /** Called if the VM dropped output while this client was not connected. */
  readonly onLost?: () => void
}

/** Time after a lost connection until the VM ends the session. Short, because this client does not reconnect. */
const idleSeconds = 60

/** Runs a file operation until it is done. @throws Error with the message of the tool in the VM */
export async function onFiles(
  call: Call,
  { app_name, job_id, vm_id, user }: VmPlace,
  file: FileAction,
  { input, onOutput, onLost }: FileStreams = {},
): Promise<void> {
  const body = { file, vm_id, user, idle_timeout_seconds: idleSeconds }
  const { id } = await call.client.openVmSession({ app_name, job_id, body })
  const place = { app_name, job_id, session_id: id }
  const words = [app_name, job_id, id].map(encodeURIComponent)
  const errors: Uint8Array[] = []
  const connection = connectSession({
    baseUrl: call.url,
    path: `/v1/apps/${words[0]}/deployments/${words[1]}/sessions/${words[2]}/attach`,
    project: call.project,
    token: () => call.token,
    state: async () => {
      const { status, exit_code, signal } = await call.client.getVmSession(place)
      return status === 'running' ? undefined : { reason: status, code: exit_code ?? signal }
    },
    onLost: () => onLost?.(),
    onOutput: (stream, data) => (stream === 'stderr' ? void errors.push(data) : onOutput?.(data)),
  })
  const abandoned = new Promise<never>((_, reject) =>
    call.signal.addEventListener('abort', () => reject(call.signal.reason as Error), { once: true }),
  )
  try {
    const sent = (async () => {
      for await (const data of input ?? []) await connection.write(data)
      connection.closeInput()
    })()
    sent.catch(() => undefined)
    // A tool that fails exits before it has read its whole input, so do not wait until all input is sent.
    const { reason, code } = await Promise.race([connection.ended, failureOf(sent), abandoned])
    if (reason === 'exited' && code === 0) return
    const said = Buffer.concat(errors).toString().trim()
    throw new Error(said || `The action ended with ${reason} ${code ?? ''}.`)
  } catch (cause) {
    connection.detach()
    await call.client.closeVmSession(place).catch(() => undefined)
    throw cause
  }
}

const failureOf = (work: Promise<void>): Promise<never> =>
  new Promise((_, reject) => {
    work.catch(reject)
  })

export interface VmFile {
  readonly type: 'file' | 'directory' | 'symlink' | 'other'
  readonly mode: string
  readonly bytes: number
  readonly modifiedAt: Date
  readonly path: string
  readonly target: string
}

const types: Readonly<Record<string, VmFile['type']>> = { f: 'file', d: 'directory', l: 'symlink' }

/** Lists the path, and `depth` levels below it. @throws Error if the path does not exist */
export async function listFiles(call: Call, at: VmPlace, path: string, depth: number): Promise<VmFile[]> {
  const parts: Uint8Array[] = []
  await onFiles(call, at, { action: 'list', path, depth }, { onOutput: data => void parts.push(data) })
  const lines = Buffer.concat(parts).toString().split('\n').filter(Boolean)
  return lines.map(line => {
    const [type = '', mode = '', bytes, seconds, name = '', target = ''] = line.split(' ')
    return {
      type: types[type] ?? 'other',
      mode,
      bytes: Number(bytes),
      modifiedAt: new Date(Number(seconds) * 1000),
      path: unescape(name),
      target: unescape(target),
    }
  })
}

export interface FileChange {
  /**
   * `watching`: the watch has begun; `directories` is their number. `limit`: there are more directories, which are not
   * watched. `overflow`: some changes before the next event are missing.
   */
  readonly event: 'watching' | 'limit' | 'overflow' | 'created' | 'changed' | 'removed' | 'moved'
  readonly path?: string
  /** The new path of a moved file or directory. */
  readonly to?: string
  readonly directories?: number
}

/** Watches a path in the VM and reports changes until the path is removed. @throws Error if the path does not exist */
export async function watchFiles(
  call: Call,
  at: VmPlace,
  file: { readonly path: string; readonly recursive: boolean },
  onChange: (change: FileChange) => void,
): Promise<void> {
  let rest = ''
  await onFiles(
    call,
    at,
    { action: 'watch', ...file },
    {
      onOutput(data) {
        const lines = (rest + Buffer.from(data).toString('latin1')).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) onChange(changeOf(line))
      },
      onLost() {
        rest = ''
        onChange({ event: 'overflow' })
      },
    },
  )
}

function changeOf(line: string): FileChange {
  const [event = '', path = '', to] = line.split(' ')
  switch (event) {
    case 'watching':
    case 'limit':
      return { event, directories: Number(path) }
    case 'created':
    case 'changed':
    case 'removed':
      return { event, path: unescape(path) }
    case 'moved':
      return { event, path: unescape(path), to: unescape(to ?? '') }
    // Report missing changes for an incomplete line, whose beginning was dropped, and for an event that only later
    // versions know.
    default:
      return { event: 'overflow' }
  }
}

/** Decodes a percent-encoded name. Names in a VM are bytes; invalid UTF-8 becomes replacement characters. */
const unescape = (text: string) =>
  Buffer.from(
    text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  ).toString()
