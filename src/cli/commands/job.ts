/** Commands for jobs of an app: programs that run on a schedule. */
import type { Command } from 'commander'
import { type Job, shortFailure } from '../../client/index.ts'
import { appFlag, appOf } from '../folder.ts'
import { age, listing, status } from '../output.ts'
import { type Call, noun, oneOf, said, text, type Verb, wholeNumber } from '../verb.ts'

export const jobCommands = (): Command[] => [
  noun('jobs', 'Commands that run on a schedule, each time in a separate VM', [
    list,
    set,
    run,
    history,
    pausing(true),
    pausing(false),
    remove,
  ]),
]

const list: Verb = {
  usage: 'list',
  says: 'List the jobs of the app with the time of their next run',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listJobs({ app_name: await appOf(call) })
    const rows = all.map(job => [
      ...[job.name, job.schedule, job.time_zone, job.next_at ?? (job.paused ? 'paused' : '')],
      ...[job.overlap, job.command.join(' '), job.note ?? ''],
    ])
    const head = ['NAME', 'SCHEDULE', 'ZONE', 'NEXT', 'OVERLAP', 'COMMAND', 'NOTE']
    return said(all, listing(head, rows, 'No jobs. Create one: mote jobs set <name> "30 2 * * *" --exec <command>'))
  },
}

const set: Verb = {
  usage: 'set <name> <schedule>',
  says: 'Create or change a job; the schedule has five fields as in crontab',
  options: [
    appFlag,
    ['--exec <command>', 'program and arguments, separated by spaces'],
    ['--shell <script>', 'a script for /bin/sh instead of a program'],
    ['--zone <name>', 'IANA time zone, such as Europe/Berlin; by default UTC'],
    ['--overlap <policy>', 'what to do if an earlier run has not ended: skip, allow or replace; by default skip'],
    ['--retries <count>', 'how often a failed run is repeated; by default never'],
    ['--timeout <seconds>', 'end a run after this time; by default an hour'],
  ],
  example:
    'mote jobs set nightly "30 2 * * *" --zone Europe/Berlin --exec "python report.py"\nmote jobs set clean @hourly --shell "rm -rf /tmp/cache && echo done"',
  async run(call) {
    const [job_name = '', schedule = ''] = call.args
    const { flags } = call
    const app_name = await appOf(call)
    const job = await call.client.putJob({
      app_name,
      job_name,
      body: {
        schedule,
        command: commandOf(text(flags, 'exec'), text(flags, 'shell')),
        time_zone: text(flags, 'zone'),
        overlap: oneOf(['skip', 'allow', 'replace'], text(flags, 'overlap'), 'overlap'),
        retries: wholeNumber(flags, 'retries'),
        timeout_seconds: wholeNumber(flags, 'timeout'),
      },
    })
    return said(job, nextOf(job))
  },
}

const nextOf = ({ name, next_at }: Job) =>
  next_at === null ? `${name} is paused.` : `${name} runs next at ${next_at}.`

/** Returns the command given with `--exec` or `--shell`. @throws Error unless exactly one of the flags is given */
function commandOf(program: string | undefined, script: string | undefined): string[] {
  if ((program === undefined) === (script === undefined)) throw new Error('Give the command: --exec or --shell')
  return script === undefined ? (program ?? '').split(' ').filter(Boolean) : ['/bin/sh', '-c', script]
}

const run: Verb = {
  usage: 'run <name>',
  says: 'Run a job now, in addition to its schedule',
  options: [appFlag],
  async run(call) {
    const [job_name = ''] = call.args
    const started = await call.client.startJob({ app_name: await appOf(call), job_name })
    return said(started, `Started. Its output: mote runs log ${started.run_id}`)
  },
}

const history: Verb = {
  usage: 'history <name>',
  says: 'List the runs of a job, newest first',
  options: [appFlag],
  async run(call) {
    const [job_name = ''] = call.args
    const all = await call.client.listRuns({ app_name: await appOf(call), query: { job_name } })
    const rows = all.map(one => [
      ...[one.id, one.due_at ?? 'by hand', status(one.status), String(one.exit_code ?? '')],
      ...[String(one.attempt), age(one.created_at), one.error === null ? '' : shortFailure(one.error)],
    ])
    return said(all, listing(['RUN', 'DUE', 'STATUS', 'CODE', 'ATTEMPT', 'STARTED', 'ERROR'], rows, 'No runs yet.'))
  },
}

const pausing = (paused: boolean): Verb => ({
  usage: `${paused ? 'pause' : 'resume'} <name>`,
  says: paused ? 'Suspend the schedule of a job' : 'Resume the schedule of a job',
  options: [appFlag],
  async run(call) {
    const [job_name = ''] = call.args
    const job = await change(call, await appOf(call), job_name, paused)
    return said(job, nextOf(job))
  },
})

async function change(call: Call, app_name: string, job_name: string, paused: boolean): Promise<Job> {
  const { schedule, command, time_zone, overlap, retries, timeout_seconds } = await call.client.getJob({
    app_name,
    job_name,
  })
  const body = { schedule, command, time_zone, overlap, retries, timeout_seconds, paused }
  return call.client.putJob({ app_name, job_name, body })
}

const remove: Verb = {
  usage: 'delete <name>',
  says: 'Delete a job; its runs stay in the history',
  aliases: ['rm'],
  options: [appFlag],
  async run(call) {
    const [job_name = ''] = call.args
    return said(await call.client.deleteJob({ app_name: await appOf(call), job_name }), `Deleted ${job_name}.`)
  },
}
