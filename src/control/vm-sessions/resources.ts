import { type Static, Type } from 'typebox'
import { signalNames } from '../../contract/session-stream.ts'
import {
  bool,
  dateTime,
  int32,
  list,
  maybe,
  nullable,
  oneOf,
  rawText,
  resource,
  stringMap,
  text,
  uint16,
  uint32,
  uuid,
} from '../http/types.ts'

const TerminalSize = resource(
  'TerminalSize',
  {
    rows: uint16({ description: 'Number of lines.', examples: [24] }),
    columns: uint16({ description: 'Number of characters per line.', examples: [80] }),
  },
  { description: 'Size of a terminal in characters.' },
)

export const defaultIdleSeconds = 900
const day = 86_400

const filePath = (options: Readonly<Record<string, unknown>>) => rawText({ minLength: 1, maxLength: 4095, ...options })

/** Actions of the file tools in guest/files.c. */
export const fileActions = ['read', 'write', 'list', 'mkdir', 'move', 'remove', 'pack', 'unpack', 'watch'] as const

const FileAction = resource(
  'FileAction',
  {
    action: oneOf(fileActions, {
      description:
        'Action to perform. `read`: outputs the content of the file. `write`: replaces the file with the input, atomically. `list`: outputs a line per entry, with type, mode, size in bytes, time, percent-encoded path and link target. `pack`: outputs a directory tree as a tar archive. `unpack`: extracts a tar archive from the input. `watch`: outputs a line for each change, until the session is closed.',
    }),
    path: filePath({
      description: 'Path in the VM; a relative path starts at the working directory.',
      examples: ['/data/dump.sql'],
    }),
    to: maybe(filePath({ description: 'New path. Only with `move`.', examples: ['/data/old.sql'] })),
    mode: maybe(
      text({
        pattern: '^[0-7]{3,4}$',
        'x-mote-pattern': 'three or four octal digits',
        description:
          'Permissions of a written file, in octal digits. Default: those of the file that is replaced, or else 644.',
        examples: ['640'],
      }),
    ),
    depth: maybe(
      uint32({
        maximum: 100,
        description: 'Number of directory levels that `list` outputs. Default: 0, which outputs the path only.',
        examples: [1],
      }),
    ),
    recursive: maybe(
      bool({
        description:
          'Whether `remove` removes a directory together with its content, and whether `watch` includes all subdirectories. Default: false.',
      }),
    ),
  },
  { description: 'An action on files in a VM.' },
)

export const OpenVmSessionRequest = resource(
  'OpenVmSessionRequest',
  {
    command: Type.Optional(
      list(rawText({ maxLength: 65_536, examples: ['sh'] }), {
        minItems: 1,
        maxItems: 256,
        description: 'Program and arguments, run without a shell. Required unless `port` or `file` is set.',
        examples: [['sh', '-l']],
      }),
    ),
    port: maybe(
      uint16({
        minimum: 1,
        description: 'Connects to this TCP port in the VM instead of running a program.',
        examples: [5432],
      }),
    ),
    file: maybe(FileAction, {
      description:
        'Reads or changes files with a built-in tool, for which the image needs no program. The data of the session are the input or output of the tool.',
    }),
    env: maybe(stringMap({ maxProperties: 256, examples: [{ TERM: 'xterm-256color' }] }), {
      description: 'Environment variables in addition to those of the app. Values are not stored.',
    }),
    cwd: maybe(
      rawText({ maxLength: 4096, examples: ['/srv'], description: 'Working directory. Default: that of the image.' }),
    ),
    user: maybe(
      text({
        maxLength: 64,
        examples: ['root'],
        description: 'Name or numeric id of the user that runs the program. Default: the user of the image.',
      }),
    ),
    tty: maybe(TerminalSize, {
      description: 'Runs the program in a terminal of this size. Default: pipes instead of a terminal.',
    }),
    stdin: maybe(
      bool({ description: 'Whether to open a pipe for input. A terminal always has input. Default: false.' }),
    ),
    vm_id: maybe(uuid({ description: 'Id of the VM. Default: the first running VM of the deployment.' })),
    idle_timeout_seconds: maybe(
      uint32({
        maximum: day,
        description: `Seconds without an attached client after which the program is killed; 0: never. Default: ${defaultIdleSeconds}.`,
        examples: [defaultIdleSeconds],
      }),
    ),
  },
  { description: 'A program to run in a VM next to the app, a port to connect to, or an action on files.' },
)

export const SignalVmSessionRequest = resource(
  'SignalVmSessionRequest',
  { signal: oneOf(signalNames, { description: 'Name of the signal, without `SIG`.' }) },
  { description: 'A signal to send to a program.' },
)

export const VmSession = resource(
  'VmSession',
  {
    id: uuid({ description: 'Id of the session.' }),
    vm_id: uuid({ description: 'Id of the VM in which the program runs.' }),
    program: text({
      description: 'Program without its arguments; or `tcp:` and the port; or `file:` with the action and path.',
      examples: ['sh'],
    }),
    tty: bool({ description: 'Whether the program runs in a terminal.' }),
    status: oneOf(['running', 'exited', 'signaled', 'lost'], {
      description:
        'Status of the session. `exited`: the program exited with a code. `signaled`: a signal killed the program. `lost`: the VM ended before the program.',
    }),
    exit_code: nullable(int32({ description: 'Exit code of the program; null if it has not exited.', examples: [0] })),
    signal: nullable(
      int32({ description: 'Number of the signal that killed the program; null if none did.', examples: [9] }),
    ),
    opened_by: uuid({ description: 'Id of the account that started the program.' }),
    opened_at: dateTime({ description: 'When the program was started.' }),
    seen_at: dateTime({ description: 'When a client was last attached, accurate to about a minute.' }),
    ended_at: nullable(dateTime({ description: 'When the program ended; null while it runs.' })),
    idle_timeout_seconds: nullable(
      uint32({
        description: 'Seconds without an attached client after which the program is killed; null: never.',
        examples: [defaultIdleSeconds],
      }),
    ),
  },
  { description: 'A session: a program that runs in a VM next to the app.' },
)
export type VmSession = Static<typeof VmSession>

export const AppSsh = resource(
  'AppSsh',
  {
    ssh_host: text({ description: 'Host name of the SSH bastion.', examples: ['cloud.example.com'] }),
    ssh_port: uint16({ description: 'Port of the SSH bastion.', examples: [7022] }),
    ssh_user: text({
      description: 'User name for the SSH login: the app and its project, with a dot between them.',
      examples: ['web.shop'],
    }),
    ssh_host_keys: list(text({ examples: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI'] }), {
      description:
        'Host keys of the SSH bastions, in the format of known_hosts without the host name; empty until a gateway has reported its key.',
    }),
    ssh_command: text({
      description: 'Command that opens a shell. It accepts only the listed host keys.',
      examples: ['ssh -p 7022 web.shop@cloud.example.com'],
    }),
  },
  { description: 'SSH access to the VM of an app.' },
)

const position = (stream: string) =>
  Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      default: 0,
      description: `Number of bytes of ${stream} that the client has already received.`,
      examples: [0],
    }),
  )
export const AttachQuery = Type.Object({ stdout: position('standard output'), stderr: position('standard error') })
