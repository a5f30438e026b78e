/** Commands for programs in a running VM: exec, ssh, sessions. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { appFlag, appOf } from '../folder.ts'
import { age, listing, status } from '../output.ts'
import { err, raw } from '../terminal.ts'
import { type Answer, type Call, type Flags, noun, said, text, type Verb, verb, wholeNumber } from '../verb.ts'
import { deploymentFlag, deploymentOf } from './app.ts'

export const vmSessionCommands = (): Command[] => [
  ...[exec, ssh, proxy, top].map(verb),
  noun('sessions', 'Programs that run in VMs beside the app', [list, attach, close]),
]

const target = [appFlag, deploymentFlag]
const forProgram = [
  ...target,
  ['--vm <id>', 'the VM; by default the first running one'],
  ['-u, --user <name>', "user of the program; by default the image's"],
  ['-w, --cwd <directory>', "working directory; by default the image's"],
  ['-e, --env <name=value...>', 'environment variables for the program'],
] as const

const place = async (call: Call) => {
  const app_name = await appOf(call)
  return { app_name, job_id: await deploymentOf(call, app_name) }
}

const exec: Verb = {
  usage: 'exec <command...>',
  says: 'Run a program in the VM of the app, and exit with its exit code',
  options: [
    ...forProgram,
    ['-i, --interactive', 'pass the standard input on'],
    ['-t, --tty', 'run the program in a terminal'],
    ['--detach', 'start the program, print its session id and return'],
    ['--timeout <seconds>', 'time limit of the program, at most 60 seconds; by default none'],
  ],
  passThrough: true,
  example:
    'mote exec --app web -- ls -l /data\nmote exec -it --app web -- python3\nmote exec -i --app web -- psql < dump.sql',
  async run(call) {
    const { flags } = call
    if (flags.json || flags.timeout !== undefined) return execAtOnce(call)
    if (flags.tty && !process.stdin.isTTY)
      throw new Error('--tty needs a terminal as standard input. Use --interactive for pipes.')
    return runProgram(call, call.rest, { tty: flags.tty === true, stdin: flags.interactive === true })
  },
}

const ssh: Verb = {
  usage: 'ssh',
  says: "Open a shell in the app's VM",
  options: [
    ...forProgram,
    ['--config', 'open no shell, and print the lines of ssh_config for OpenSSH, scp, sftp and editors'],
  ],
  example: 'mote ssh --app web\nmote ssh --config >> ~/.ssh/config && ssh mote-web',
  async run(call) {
    if (call.flags.config) return sshConfig(call)
    // Prefer bash. Every image with a shell has at least /bin/sh.
    const shell = ['/bin/sh', '-c', 'if command -v bash >/dev/null 2>&1; then exec bash -l; else exec /bin/sh -l; fi']
    const began = performance.now()
    const answer = await runProgram(call, shell, { tty: process.stdin.isTTY, stdin: true })
    if (answer.code === 127 && performance.now() - began < quickMs)
      throw new Error('The image has no shell (/bin/sh). Run one of its programs: mote exec -it -- <program>')
    return answer
  },
}

/**
 * Returns the lines of ssh_config that let an unmodified OpenSSH connect. The user must have registered a key with
 * `mote ssh-keys add`.
 */
async function sshConfig(call: Call): Promise<Answer> {
  const app_name = await appOf(call)
  const ssh = await call.client.getAppSsh({ app_name })
  const [key, ...others] = ssh.ssh_host_keys
  const pinned =
    key === undefined || others.length > 0
      ? ['StrictHostKeyChecking accept-new']
      : [
          'StrictHostKeyChecking yes',
          'UserKnownHostsFile /dev/null',
          'HostKeyAlias mote-bastion',
          `KnownHostsCommand /bin/echo mote-bastion ${key}`,
        ]
  const lines = [`HostName ${ssh.ssh_host}`, `Port ${ssh.ssh_port}`, `User ${ssh.ssh_user}`, ...pinned]
  return said(ssh, [`Host mote-${app_name}`, ...lines.map(line => `  ${line}`)].join('\n'))
}

/**
 * Time within which exit code 127 means that /bin/sh is missing. A user who types an unknown command and leaves the
 * shell needs longer.
 */
const quickMs = 1500

const top: Verb = {
  usage: 'top',
  says: "Show the processes of the app's VM; on a terminal, refreshed every two seconds until Ctrl-C",
  options: [
    ...target,
    ['--vm <id>', 'the VM; by default the first running one'],
    ['--once', 'show the processes once, without refreshing'],
  ],
  example: 'mote top --app web',
  async run(call) {
    const at = { ...(await place(call)), query: { vm_id: text(call.flags, 'vm') } }
    const { tableOf } = await import('../processes.ts')
    let before = await call.client.listVmProcesses(at)
    const once = call.flags.once === true || call.flags.json === true || !process.stdout.isTTY
    while (!once && !call.signal.aborted) {
      const began = performance.now()
      await delay(topEveryMs, undefined, { signal: call.signal }).catch(() => undefined)
      if (call.signal.aborted) break
      const now = await call.client.listVmProcesses(at)
      raw('stdout', `\u001b[H\u001b[2J${tableOf(now, before, performance.now() - began, process.stdout.rows)}\n`)
      before = now
    }
    return once ? said(before, tableOf(before)) : { json: null, text: '' }
  },
}
const topEveryMs = 2000

const proxy: Verb = {
  usage: 'proxy <ports...>',
  says: "Make ports of the app's VM reachable on this computer, as <local>:<port> or <port>",
  options: [...target, ['--vm <id>', 'the VM; by default the first running one']],
  example: 'mote proxy 5432 --app web\nmote proxy 9000:80 9229 --app web',
  async run(call) {
    const pairs = call.rest.map(portsOf)
    const at = await place(call)
    const { startProxy } = await import('../proxy.ts')
    await using servers = new AsyncDisposableStack()
    for (const { local, port } of pairs) {
      const server = await startProxy(call, { ...at, vm_id: text(call.flags, 'vm'), port }, local)
      servers.defer(() => void server.close())
      call.terminal.line(`127.0.0.1:${local} is port ${port} of ${at.app_name}. Ctrl-C stops it.`)
    }
    await new Promise(resolve => call.signal.addEventListener('abort', resolve, { once: true }))
    return process.exit(0)
  },
}

/** Parses `<local port>:<port in the VM>`, or one port for both. @throws Error for anything else */
function portsOf(given: string): { readonly local: number; readonly port: number } {
  const [, first = '', second] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(given) ?? []
  const [local, port] = [Number(first), Number(second ?? first)]
  if (first !== '' && local <= 65_535 && port >= 1 && port <= 65_535) return { local, port }
  throw new Error(`${given} is not a port. Write 5432, or 9000:80 for the local port 9000.`)
}

async function runProgram(
  call: Call,
  command: readonly string[],
  { tty, stdin }: { readonly tty: boolean; readonly stdin: boolean },
): Promise<Answer> {
  const at = await place(call)
  const { flags } = call
  const env = { ...environmentOf(flags), ...(tty && process.env.TERM ? { TERM: process.env.TERM } : {}) }
  const opened = await call.client.openVmSession({
    ...at,
    body: {
      command: [...command],
      env,
      user: text(flags, 'user'),
      cwd: text(flags, 'cwd'),
      vm_id: text(flags, 'vm'),
      tty: tty ? { rows: process.stdout.rows || 24, columns: process.stdout.columns || 80 } : null,
      stdin: stdin || tty,
      idle_timeout_seconds: flags.detach ? 0 : undefined,
    },
  })
  if (flags.detach) return said(opened, opened.id)
  const { runRemote } = await import('../remote-session.ts')
  return { json: opened, text: '', code: await runRemote(call, { ...at, session_id: opened.id, tty, stdin }) }
}

/** Parses the values of the flag `--env`. @throws Error if one of them has no name */
function environmentOf({ env }: Flags): Record<string, string> {
  const pairs = Array.isArray(env) ? env.map(String) : []
  return Object.fromEntries(
    pairs.map(pair => {
      const at = pair.indexOf('=')
      if (at < 1) throw new Error(`--env ${pair} has no name. Write it as NAME=value.`)
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}

/** Runs a program without a session: waits for its end and prints its whole output. */
async function execAtOnce(call: Call): Promise<Answer> {
  const seconds = wholeNumber(call.flags, 'timeout') ?? 10
  const began = performance.now()
  const body = { command: [...call.rest], timeout_seconds: seconds }
  const answer = await call.client.execInVm({ ...(await place(call)), body })
  // Exit code 124 alone does not prove a timeout, because the program itself can exit with it. So compare the duration,
  // too.
  const wasEnded = answer.exit_code === 124 && performance.now() - began >= seconds * 1000
  if (call.flags.json) return { json: answer, text: '', code: answer.exit_code }
  raw('stderr', answer.stderr)
  if (answer.truncated) err('(the output was longer than 1 MiB and was cut)\n')
  raw('stdout', answer.stdout)
  if (wasEnded) err(`The program was terminated after ${seconds} s. Without --timeout there is no limit.\n`)
  return { json: answer, text: '', code: answer.exit_code }
}

const list: Verb = {
  usage: 'list',
  says: 'List the sessions in the VMs of the app, including those that ended within a day, newest first',
  aliases: ['ls'],
  options: target,
  async run(call) {
    const all = await call.client.listVmSessions(await place(call))
    const rows = all.map(one => [
      ...[one.id, one.program, status(one.status), String(one.exit_code ?? one.signal ?? '')],
      ...[one.tty ? 'terminal' : 'pipes', age(one.opened_at), one.vm_id],
    ])
    return said(all, listing(['ID', 'PROGRAM', 'STATUS', 'CODE', 'KIND', 'OPENED', 'VM'], rows, 'No sessions.'))
  },
}

const attach: Verb = {
  usage: 'attach <session>',
  says: 'Connect to a VM session again; an earlier client is disconnected',
  options: target,
  async run(call) {
    const [session_id = ''] = call.args
    const at = await place(call)
    const { tty } = await call.client.getVmSession({ ...at, session_id })
    const { runRemote } = await import('../remote-session.ts')
    return { json: null, text: '', code: await runRemote(call, { ...at, session_id, tty, stdin: true }) }
  },
}

const close: Verb = {
  usage: 'close <session>',
  says: 'Kill the program of a VM session and its children',
  options: target,
  async run(call) {
    const [session_id = ''] = call.args
    const answer = await call.client.closeVmSession({ ...(await place(call)), session_id })
    return said(answer, `Session ${session_id} is closed.`)
  },
}
