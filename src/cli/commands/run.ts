/** `mote run` and `mote runs`: programs that run once in a separate VM. */
import type { Command } from 'commander'
import type { Run } from '../../client/index.ts'
import { appFlag, appOf } from '../folder.ts'
import { age, listing, status } from '../output.ts'
import { type Answer, type Call, noun, oneOf, said, text, type Verb, verb, wholeNumber } from '../verb.ts'
import { waitShown } from '../wait-shown.ts'

export const runCommands = (): Command[] => [
  verb(run),
  noun('runs', 'Commands that ran, or run, in separate VMs', [list, log, cancel]),
]

const run: Verb = {
  usage: 'run <command...>',
  says: "Run a command in a new VM with the app's image and environment, and exit with its exit code",
  options: [
    appFlag,
    ['-t, --tty', 'run the program in a terminal'],
    ['-i, --interactive', 'pass the standard input on'],
    ['--detach', 'start the run, print its id and return; its output is retained for 30 days'],
    ['--job <id>', 'the deployment to use; by default the active one'],
    ['--vcpus <count>', 'vCPUs of the VM, 1 to 4; by default those of the app'],
    ['--memory <mib>', 'memory of the VM in MiB: 512, 1024, 2048 or 4096; by default that of the app'],
    ['--timeout <seconds>', 'end the run after this time; by default an hour'],
  ],
  passThrough: true,
  example: 'mote run --app web -- python manage.py migrate\nmote run -it -- bash',
  async run(call) {
    const { flags } = call
    const app_name = await appOf(call)
    if (flags.tty && !process.stdin.isTTY)
      throw new Error('--tty needs a terminal as standard input. Use --interactive for pipes.')
    const wanted = {
      job_id: text(flags, 'job'),
      vcpus: oneOf([1, 2, 3, 4], wholeNumber(flags, 'vcpus'), 'vcpus'),
      memory_mib: oneOf([512, 1024, 2048, 4096], wholeNumber(flags, 'memory'), 'memory'),
      timeout_seconds: wholeNumber(flags, 'timeout'),
    }
    if (flags.detach) {
      const started = await call.client.startRun({ app_name, body: { ...wanted, command: [...call.rest] } })
      return said(started, started.id)
    }
    // Start a VM that only waits, and run the command in it as a VM session, which has input, a terminal and separate
    // output and error streams, and survives a lost connection.
    const started = await call.client.startRun({ app_name, body: wanted })
    try {
      return await inVm(call, app_name, await untilRunning(call, app_name, started))
    } finally {
      await call.client.cancelRun({ app_name, run_id: started.id }).catch(() => undefined)
    }
  },
}

async function inVm(call: Call, app_name: string, { job_id, vm_id }: Run): Promise<Answer> {
  const tty = call.flags.tty === true
  const stdin = tty || call.flags.interactive === true
  const session = await call.client.openVmSession({
    app_name,
    job_id,
    body: {
      command: [...call.rest],
      env: tty && process.env.TERM ? { TERM: process.env.TERM } : {},
      vm_id,
      tty: tty ? { rows: process.stdout.rows || 24, columns: process.stdout.columns || 80 } : null,
      stdin,
    },
  })
  const { runRemote } = await import('../remote-session.ts')
  const code = await runRemote(call, { app_name, job_id, session_id: session.id, tty, stdin })
  return { json: session, text: '', code }
}

const everyMs = 150

function untilRunning(call: Call, app_name: string, started: Run): Promise<Run> {
  return waitShown(call, { what: 'Starting a VM', everyMs }, async () => {
    const run = await call.client.getRun({ app_name, run_id: started.id })
    if (run.status === 'running') return run
    if (run.status !== 'pending' && run.status !== 'starting')
      throw new Error(`The VM did not start: ${run.error ?? run.status}`)
    return undefined
  })
}

const list: Verb = {
  usage: 'list',
  says: 'List the runs of the app, including release commands, newest first',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listRuns({ app_name: await appOf(call) })
    const rows = all.map(one => [
      ...[one.id, one.purpose, one.command?.join(' ') ?? '(sessions)', status(one.status)],
      ...[String(one.exit_code ?? ''), age(one.created_at), one.job_id],
    ])
    const head = ['ID', 'PURPOSE', 'COMMAND', 'STATUS', 'CODE', 'STARTED', 'DEPLOYMENT']
    return said(all, listing(head, rows, 'No runs. Start one: mote run -- <command>'))
  },
}

const log: Verb = {
  usage: 'log <run>',
  says: 'Print the last lines of the output of a run',
  options: [appFlag],
  async run(call) {
    const [run_id = ''] = call.args
    const found = await call.client.getRunLog({ app_name: await appOf(call), run_id })
    return said(found, found.text.replace(/\n$/, ''))
  },
}

const cancel: Verb = {
  usage: 'cancel <run>',
  says: 'Stop the program of a run and remove its VM',
  options: [appFlag],
  async run(call) {
    const [run_id = ''] = call.args
    return said(await call.client.cancelRun({ app_name: await appOf(call), run_id }), 'Cancelling.')
  },
}
