/**
 * The schema of `mote.toml`. It validates the file, is served to editors, and is the source of docs/mote-toml.md. Its
 * defaults are fixed, so that a file means the same on every installation.
 */
import { type Static, Type } from 'typebox'
import { Build } from './build-schema.ts'
import { Canary, maybe, table } from './canary-schema.ts'
import { Hosts } from './hosts-schema.ts'
import { restarts, strategy } from './restart-schema.ts'
import { GivenFiles } from './file-schema.ts'
import { Jobs } from './job-schema.ts'
import { Services } from './service-schema.ts'

/** A string with a pattern, and the explanation of the pattern for error messages (lib/faults.ts). */
const shaped = (pattern: string, form: string, options: Readonly<Record<string, unknown>>) =>
  Type.String({ pattern, 'x-mote-pattern': form, ...options })
/** A number that must be one of a few values. */
const oneOf = <const T extends readonly number[]>(values: T, options: Readonly<Record<string, unknown>>) =>
  Type.Unsafe<T[number]>({ type: 'integer', enum: [...values], ...options })
const percent = (what: string) =>
  Type.Number({
    minimum: 0,
    maximum: 100,
    default: 80,
    description: `${what} usage in percent, 0 to 100, above which a VM is added.`,
  })

const name = (options: Readonly<Record<string, unknown>>) =>
  shaped(
    '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$',
    'only lower-case letters, digits and dashes, and start and end with a letter or a digit',
    { minLength: 1, maxLength: 40, ...options },
  )

const Autoscaling = table(
  {
    max_replicas: Type.Integer({
      minimum: 1,
      maximum: 100,
      description: 'Maximum number of VMs.',
      examples: [5],
    }),
    cpu_percent: maybe(percent('CPU')),
    memory_percent: maybe(percent('Memory')),
  },
  'Adjusts the number of VMs to their load, from `replicas` to `max_replicas`. Without this table, the number of VMs is fixed.',
)

const Health = table(
  {
    path: maybe(
      shaped('^/', 'a "/" at the start', {
        maxLength: 512,
        default: '/',
        description:
          'Path of the health check: a VM gets requests once a `GET` of this path returns a 2xx or 3xx status.',
        examples: ['/health'],
      }),
    ),
  },
  'Health check of the process.',
)

const command = (description: string) =>
  Type.Array(Type.String({ maxLength: 4096 }), { maxItems: 64, description, examples: [['node', 'server.js']] })

/** Keys that every process can have. */
const size = {
  vcpus: maybe(oneOf([1, 2, 3, 4], { default: 1, description: 'Virtual CPUs of each VM.' })),
  memory_mib: maybe(oneOf([512, 1024, 2048, 4096], { default: 512, description: 'Memory of each VM in MiB.' })),
  disk_mib: maybe(
    Type.Integer({
      minimum: 64,
      maximum: 1_048_576,
      default: 1024,
      description:
        'Writable disk of each VM in MiB. Its content is lost when the VM ends; for permanent data use `volumes`.',
    }),
  ),
  replicas: maybe(
    Type.Integer({
      minimum: 1,
      maximum: 100,
      default: 1,
      description: 'Number of VMs; with `autoscaling`, the minimum number.',
      examples: [2],
    }),
  ),
  autoscaling: maybe(Autoscaling),
  strategy: maybe(strategy),
  hosts: maybe(Hosts),
  ...restarts,
}

const Web = table(
  {
    command: maybe(
      command(
        'Program and arguments that replace the entrypoint and command of the image, run without a shell. Default: those of the image.',
      ),
    ),
    port: maybe(
      Type.Integer({
        minimum: 1,
        maximum: 65_535,
        default: 8080,
        description: 'Port that the program listens on; it is also passed as `$PORT`.',
        examples: [3000],
      }),
    ),
    ...size,
    scale_to_zero: maybe(
      Type.Boolean({
        default: false,
        description: 'Whether the app is scaled to zero while it gets no requests. The next request starts it again.',
      }),
    ),
    drain_seconds: maybe(
      Type.Integer({
        minimum: 0,
        maximum: 3600,
        default: 30,
        description: 'Seconds that the VMs of a replaced version have to finish open requests before they are stopped.',
      }),
    ),
    canary: maybe(Canary),
    health: maybe(Health),
  },
  'The process that serves HTTP requests.',
)

const Worker = table(
  { command: command('Program and arguments, run without a shell.'), ...size },
  'A worker is a process that gets no requests and has the image and environment of `web`. It is deployed as the app `<app>-<name>`, and counts as healthy once its program has run for two seconds.',
)
type Process = Static<typeof Web>

const workerName = '^(?!web$)[a-z]([a-z0-9-]{0,18}[a-z0-9])?$'
const Processes = Type.Unsafe<{ web?: Process; [worker: string]: Process | undefined }>({
  type: 'object',
  properties: { web: Web },
  patternProperties: { [workerName]: Worker },
  additionalProperties: false,
  maxProperties: 10,
  'x-mote-names': 'at most 20 lower-case letters, digits and dashes, starting with a letter',
  description: 'The processes of the app: `web`, and workers of any other name.',
})

const Volume = table(
  {
    name: shaped(
      '^[A-Za-z0-9][A-Za-z0-9._-]*$',
      'only letters, digits, dots, dashes and underscores, and start with a letter or a digit',
      {
        minLength: 1,
        maxLength: 63,
        description: 'Name of the volume in the project. The volume is created if it does not exist.',
        examples: ['data'],
      },
    ),
    mount: maybe(
      shaped('^/', 'a "/" at the start', {
        maxLength: 4096,
        default: '/data',
        description: 'Directory in the VM where the volume is mounted.',
        examples: ['/var/lib/web'],
      }),
    ),
    size_mib: maybe(
      Type.Integer({
        minimum: 16,
        maximum: 67_108_864,
        default: 1024,
        description: 'Size in MiB. An existing volume that is smaller grows to this size; a volume never shrinks.',
        examples: [10_240],
      }),
    ),
    read_only: maybe(
      Type.Boolean({
        default: false,
        description:
          'Whether to mount the volume read-only, so that several VMs can use it. A writable volume can be used by one VM only.',
      }),
    ),
  },
  'A disk that exists independently of VMs.',
)

export const AppFile = Type.Object(
  {
    app: name({ description: 'Name of the app; part of its host name.', examples: ['web'] }),
    project: maybe(
      name({
        maxLength: 63,
        description:
          'Slug of the project that the app belongs to. `--project` and `MOTE_PROJECT` take precedence. Default: the project of `mote login`.',
        examples: ['team-blue'],
      }),
    ),
    domains: maybe(
      Type.Array(
        Type.String({
          minLength: 1,
          maxLength: 253,
          description: 'Host name without wildcards.',
          examples: ['www.example.com'],
        }),
        {
          maxItems: 50,
          uniqueItems: true,
          default: [],
          description: 'Custom domains of the app. `mote domains list` shows the DNS records to create.',
          examples: [['www.example.com']],
        },
      ),
    ),
    build: maybe(Build),
    release: maybe(
      table(
        {
          command: Type.Array(Type.String({ minLength: 1, maxLength: 8192 }), {
            minItems: 1,
            maxItems: 256,
            description: 'Program and arguments, run without a shell.',
            examples: [['npm', 'run', 'migrate']],
          }),
        },
        'A command that runs once in a separate VM before a new version gets requests, for example for migrations. If it fails, the previous version keeps serving.',
      ),
    ),
    env: maybe(
      Type.Record(
        Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_.-]{0,127}$' }),
        Type.String({ maxLength: 32_768, description: 'Value of the variable.' }),
        {
          additionalProperties: false,
          maxProperties: 200,
          'x-mote-names': 'letters, digits, underscores, dots and dashes, starting with a letter or an underscore',
          default: {},
          description:
            'Environment variables with values that are not secret. Set secrets with `mote env set NAME=- < file`: they are not stored in this file, and deployments keep them.',
          examples: [{ LOG_LEVEL: 'info' }],
        },
      ),
    ),
    env_groups: maybe(
      Type.Array(name({ examples: ['shared'] }), {
        maxItems: 10,
        uniqueItems: true,
        description:
          'Environment groups of the project that are attached to the app. If names are equal, variables of the app win, then those of later groups. Without this key, the attached groups stay unchanged.',
        examples: [['shared']],
      }),
    ),
    processes: maybe(Processes),
    jobs: maybe(Jobs),
    files: maybe(GivenFiles),
    services: maybe(Services),
    volumes: maybe(
      Type.Array(Volume, {
        maxItems: 16,
        default: [],
        description:
          'Disks that exist independently of VMs. A volume that is removed from the file is detached, never deleted.',
      }),
    ),
  },
  {
    additionalProperties: false,
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'mote.toml',
    description: 'Configuration of a Mote app.',
  },
)
export type AppFile = Static<typeof AppFile>
