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
    rows: uint16({ description: 'Lines of the terminal.', examples: [24] }),
    columns: uint16({ description: 'Characters in one line.', examples: [80] }),
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
        '`read`: the content is the output. `write`: the input replaces the file at once. `list`: lines of type, mode, bytes, time, percent-encoded path and link target. `pack`, `unpack`: a tree as a tar archive. `watch`: a line for each change, until the session is ended.',
    }),
    path: filePath({
      description: 'Path in the VM; relative ones begin at the working directory.',
      examples: ['/data/dump.sql'],
    }),
    to: maybe(filePath({ description: 'New path. Only with `move`.', examples: ['/data/old.sql'] })),
    mode: maybe(
      text({
        pattern: '^[0-7]{3,4}$',
        'x-mote-pattern': 'three or four octal digits',
        description: 'Mode of a written file. Default: of the file that it replaces, otherwise 644.',
        examples: ['640'],
      }),
    ),
    depth: maybe(
      uint32({ maximum: 100, description: 'Levels that `list` shows. Default: 0, only the path.', examples: [1] }),
    ),
    recursive: maybe(
      bool({
        description:
          'Whether `remove` removes a directory with its content, and `watch` all directories below. Default: false.',
      }),
    ),
  },
  { description: 'One action on files in a VM.' },
)

export const OpenVmSessionRequest = resource(
  'OpenVmSessionRequest',
  {
    command: Type.Optional(
      list(rawText({ maxLength: 65_536, examples: ['sh'] }), {
        minItems: 1,
        maxItems: 256,
        description: 'The program and its arguments, passed without a shell. Required without `port` and `file`.',
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
      description: 'Reads or changes files with a tool that needs nothing of the image. Data are its input or output.',
    }),
    env: maybe(stringMap({ maxProperties: 256, examples: [{ TERM: 'xterm-256color' }] }), {
      description: 'Environment variables in addition to those of the app. Values are not stored.',
    }),
    cwd: maybe(
      rawText({ maxLength: 4096, examples: ['/srv'], description: 'Working directory. Default: of the image.' }),
    ),
    user: maybe(
      text({ maxLength: 64, examples: ['root'], description: 'Name or number of the user. Default: of the image.' }),
    ),
    tty: maybe(TerminalSize, { description: 'Runs the program in a terminal of this size. Default: pipes.' }),
    stdin: maybe(bool({ description: 'Opens a pipe for input. A terminal always has input. Default: false.' })),
    vm_id: maybe(uuid({ description: 'The VM to use. Default: the first running VM of the deployment.' })),
    idle_timeout_seconds: maybe(
      uint32({
        maximum: day,
        description: `Seconds without a client after which the program is ended; 0: never. Default: ${defaultIdleSeconds}.`,
        examples: [defaultIdleSeconds],
      }),
    ),
  },
  { description: 'Program to run beside the app.' },
)

export const SignalVmSessionRequest = resource(
  'SignalVmSessionRequest',
  { signal: oneOf(signalNames, { description: 'Name of the signal, without SIG.' }) },
  { description: 'Signal for a program.' },
)

export const VmSession = resource(
  'VmSession',
  {
    id: uuid({ description: 'Identifies the session.' }),
    vm_id: uuid({ description: 'The VM in which the program runs.' }),
    program: text({
      description: 'The program without its arguments, or `tcp:` and the port, or `file:` with the action and path.',
      examples: ['sh'],
    }),
    tty: bool({ description: 'Whether it runs in a terminal.' }),
    status: oneOf(['running', 'exited', 'signaled', 'lost'], {
      description: '`exited`: with an exit code. `signaled`: ended by a signal. `lost`: the VM ended first.',
    }),
    exit_code: nullable(int32({ description: 'Exit code of the program; null unless it exited.', examples: [0] })),
    signal: nullable(int32({ description: 'Number of the signal that ended it; null otherwise.', examples: [9] })),
    opened_by: uuid({ description: 'The account that started the program.' }),
    opened_at: dateTime({ description: 'When the program was started.' }),
    seen_at: dateTime({ description: 'When a client was last attached, to about a minute.' }),
    ended_at: nullable(dateTime({ description: 'When it ended; null while it runs.' })),
    idle_timeout_seconds: nullable(
      uint32({
        description: 'Seconds without a client after which the program is ended; null: never.',
        examples: [defaultIdleSeconds],
      }),
    ),
  },
  { description: 'A program that runs in a VM beside the app.' },
)
export type VmSession = Static<typeof VmSession>

export const AppSsh = resource(
  'AppSsh',
  {
    ssh_host: text({ description: 'Address of the SSH bastion.', examples: ['cloud.example.com'] }),
    ssh_port: uint16({ description: 'Its port.', examples: [7022] }),
    ssh_user: text({ description: 'User name: the app and its project.', examples: ['web.shop'] }),
    ssh_host_keys: list(text({ examples: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI'] }), {
      description: 'Host keys of the bastions, as in known_hosts without the name; empty until a gateway has reported.',
    }),
    ssh_command: text({
      description: 'Opens a shell; accepts only the known host key.',
      examples: ['ssh -p 7022 web.shop@cloud.example.com'],
    }),
  },
  { description: 'How OpenSSH reaches the VM of an app.' },
)

const position = (stream: string) =>
  Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      default: 0,
      description: `Bytes of ${stream} that the client already has.`,
      examples: [0],
    }),
  )
export const AttachQuery = Type.Object({ stdout: position('standard output'), stderr: position('standard error') })
