import { type Static, Type } from 'typebox'
import { dateTime, int32, list, maybe, nullable, oneOf, rawText, resource, text, uint32, uuid } from '../http/types.ts'

export const defaultTimeoutSeconds = 3600
const day = 86_400

const command = (description: string) =>
  list(rawText({ minLength: 1, maxLength: 8192, examples: ['python'] }), {
    minItems: 1,
    maxItems: 256,
    description,
    examples: [['python', 'manage.py', 'migrate']],
  })

export const StartRunRequest = resource(
  'StartRunRequest',
  {
    command: maybe(
      command(
        'Program and arguments to run, without a shell, instead of the command of the image. If absent, the VM waits for sessions, and is removed when it has had none for two minutes.',
      ),
    ),
    job_id: maybe(
      text({
        description:
          'Job id or UUID of the deployment whose image and environment are used. Default: the active deployment.',
        examples: ['job-3f6d0c4f2a1097e0'],
      }),
    ),
    vcpus: maybe(
      uint32({
        enum: [1, 2, 3, 4],
        description: 'Virtual CPUs of the VM. Default: as in the deployment.',
        examples: [1],
      }),
    ),
    memory_mib: maybe(
      uint32({
        enum: [512, 1024, 2048, 4096],
        description: 'Memory of the VM in MiB. Default: as in the deployment.',
        examples: [512],
      }),
    ),
    timeout_seconds: maybe(
      uint32({
        minimum: 1,
        maximum: day,
        description: `Time limit of the run in seconds; a run that exceeds it is stopped. Default: ${defaultTimeoutSeconds}.`,
        examples: [defaultTimeoutSeconds],
      }),
    ),
  },
  { description: 'A command to run once in a separate VM.' },
)

export const Run = resource(
  'Run',
  {
    id: uuid({ description: 'Id of the run.' }),
    job_id: text({
      description: 'Job id of the deployment whose image and environment the run uses.',
      examples: ['job-3f6d0c4f2a1097e0'],
    }),
    purpose: oneOf(['command', 'release', 'job'], {
      description:
        'Why the run was started. `command`: a user requested it. `release`: it is the release command of the deployment. `job`: it is a run of a job, started by the schedule or by a request.',
    }),
    job_name: nullable(
      text({
        description: 'Name of the job that the run belongs to; null if it belongs to none.',
        examples: ['nightly-report'],
      }),
    ),
    due_at: nullable(
      dateTime({
        description:
          'When the run was due according to the schedule of its job; null if it was started in another way.',
      }),
    ),
    attempt: uint32({
      description: 'Number of the attempt: 1, or higher if the run retries a failed run of a job.',
      examples: [1],
    }),
    command: nullable(command('Program and arguments; null if the VM waits for sessions.')),
    status: oneOf(['pending', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost'], {
      description:
        'Status of the run. `timed_out`: it exceeded its time limit. `lost`: its host was lost, and the run was not repeated. Failed scheduled runs of a job are retried as new runs.',
    }),
    exit_code: nullable(int32({ description: 'Exit code of the program; null if it has not exited.', examples: [0] })),
    error: nullable(
      text({
        description: 'Why the run failed, with the last lines of its output; null if it did not fail.',
        examples: ['The program exited with code 1.'],
      }),
    ),
    vm_id: nullable(uuid({ description: 'Id of the VM of the run; null once the VM is removed.' })),
    timeout_seconds: uint32({
      description: 'Time limit of the run in seconds; a run that exceeds it is stopped.',
      examples: [defaultTimeoutSeconds],
    }),
    started_by: nullable(uuid({ description: 'Id of the account that started the run; null for release commands.' })),
    created_at: dateTime({ description: 'When the run was requested.' }),
    started_at: nullable(dateTime({ description: 'When the program of the run started; null until then.' })),
    ended_at: nullable(dateTime({ description: 'When the VM of the run was removed; null until then.' })),
  },
  { description: 'A command that runs once in a separate VM.' },
)
export type Run = Static<typeof Run>

export const RunLog = resource(
  'RunLog',
  {
    text: Type.String({
      description: 'Last lines of the output, at most 64 KiB.',
      examples: ['Applying auth.0001_initial... OK\n'],
    }),
  },
  { description: 'Output of a run.' },
)
