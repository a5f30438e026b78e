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
        'The program and its arguments, without a shell, instead of the command of the image. Without it the VM waits for sessions, and ends when it has had none for two minutes.',
      ),
    ),
    job_id: maybe(
      text({
        description: 'Deployment whose image and environment are used. Default: the active one.',
        examples: ['job-3f6d0c4f2a1097e0'],
      }),
    ),
    vcpus: maybe(
      uint32({ enum: [1, 2, 3, 4], description: 'Virtual CPUs. Default: of the deployment.', examples: [1] }),
    ),
    memory_mib: maybe(
      uint32({
        enum: [512, 1024, 2048, 4096],
        description: 'MiB of memory. Default: of the deployment.',
        examples: [512],
      }),
    ),
    timeout_seconds: maybe(
      uint32({
        minimum: 1,
        maximum: day,
        description: `Seconds after which the run is ended. Default: ${defaultTimeoutSeconds}.`,
        examples: [defaultTimeoutSeconds],
      }),
    ),
  },
  { description: 'A command to run once in a separate VM.' },
)

export const Run = resource(
  'Run',
  {
    id: uuid({ description: 'Identifies the run.' }),
    job_id: text({
      description: 'The deployment whose image and environment it has.',
      examples: ['job-3f6d0c4f2a1097e0'],
    }),
    purpose: oneOf(['command', 'release', 'job'], {
      description: '`release`: the release command of the deployment. `job`: a time of a schedule.',
    }),
    job_name: nullable(
      text({ description: 'The job that it belongs to; null otherwise.', examples: ['nightly-report'] }),
    ),
    due_at: nullable(dateTime({ description: 'The time of the schedule; null if it was started by hand.' })),
    attempt: uint32({ description: '1, or more for the repetition of a failed run of a job.', examples: [1] }),
    command: nullable(command('The program and its arguments; null if the VM waits for sessions.')),
    status: oneOf(['pending', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost'], {
      description: '`lost`: its host was lost. A run that is not started again fails once.',
    }),
    exit_code: nullable(int32({ description: 'Exit code of the program; null unless it exited.', examples: [0] })),
    error: nullable(
      text({
        description: 'Why it failed, with the last lines of its output; null otherwise.',
        examples: ['It exited with code 1.'],
      }),
    ),
    vm_id: nullable(uuid({ description: 'Its VM; null once it is removed.' })),
    timeout_seconds: uint32({
      description: 'Seconds after which the run is ended.',
      examples: [defaultTimeoutSeconds],
    }),
    started_by: nullable(uuid({ description: 'The account that started it; null for release commands.' })),
    created_at: dateTime({ description: 'When it was requested.' }),
    started_at: nullable(dateTime({ description: 'When its program started; null before.' })),
    ended_at: nullable(dateTime({ description: 'When its VM was gone; null before.' })),
  },
  { description: 'A command that runs once in a separate VM.' },
)
export type Run = Static<typeof Run>

export const RunLog = resource(
  'RunLog',
  {
    text: Type.String({
      description: 'The last lines of output, at most 64 KiB.',
      examples: ['Applying auth.0001_initial... OK\n'],
    }),
  },
  { description: 'Output of a run.' },
)
