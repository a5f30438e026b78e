/** Operations on the files that an app's VMs get. */
import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, bool, dateTime, int32, list, maybe, nullable, resource, text } from '../http/types.ts'
import { maxFileBytes, maxPathChars } from './file-rules.ts'

const path = () =>
  text({ maxLength: maxPathChars, description: 'Absolute path in the VM.', examples: ['/etc/app/app.conf'] })
const mode = { description: 'Mode of the file, in octal digits.', examples: ['0644'] }

export const AppFile = resource(
  'AppFile',
  {
    path: path(),
    mode: text(mode),
    secret: bool({ description: 'Whether its content is never shown.', examples: [false] }),
    variable: nullable(
      text({ description: 'Variable whose value is its content; null: it has its own.', examples: [null] }),
    ),
    size_bytes: int32({ description: 'Size of its own content; 0 with a variable.', examples: [312] }),
    sha256: nullable(
      text({
        description: 'SHA-256 of its content, 64 hexadecimal digits; null for a secret.',
        examples: ['e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
      }),
    ),
    updated_at: dateTime({ description: 'When it was last set.' }),
  },
  { description: 'A file that the VMs of an app get before their program starts.' },
)

export const AppFileContent = resource(
  'AppFileContent',
  {
    path: path(),
    content: nullable(text({ description: 'Its content in base64; null for a secret.', examples: ['bGV2ZWw9MQo='] })),
  },
  { description: 'The content of a file of an app.' },
)

export const PutAppFileRequest = resource('PutAppFileRequest', {
  path: path(),
  mode: maybe(text({ ...mode, maxLength: 4, description: 'Mode of the file, in octal digits. Default: 0644.' })),
  content: maybe(
    text({
      maxLength: Math.ceil(maxFileBytes / 3) * 4,
      description: 'Content in base64. Either this or `variable` is required.',
      examples: ['bGV2ZWw9MQo='],
    }),
  ),
  variable: maybe(
    text({
      maxLength: 128,
      description: 'Variable of the app whose value becomes the content.',
      examples: [null],
    }),
  ),
  secret: maybe(
    bool({
      description: 'Whether the content is never shown again. Default: false; always with `variable`.',
      examples: [false],
    }),
  ),
})

const shared = { tag: 'Apps', auth: 'bearer', project: 'selected', addition: true } as const
const params = Type.Object({ app_name: text({ description: 'Name of the app.', examples: ['web'] }) })
/** The path is optional, so that a request without one gets the same 404 as an unknown path. */
const query = Type.Object({ path: Type.Optional(path()) })
const files = '/v1/apps/{app_name}/files'

export const appFileOperations = operations({
  listAppFiles: {
    method: 'GET',
    path: files,
    summary: 'List the files of an app',
    description: 'Returns the files that VMs of the app get before their program starts, without their contents.',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['path'] },
    answer: list(AppFile),
  },
  getAppFileContent: {
    method: 'GET',
    path: `${files}/content`,
    summary: 'Get the content of a file of an app',
    description: 'Returns the content of one file. That of a secret is never shown.',
    ...shared,
    scope: 'read',
    params,
    query,
    answer: AppFileContent,
  },
  putAppFile: {
    method: 'PUT',
    path: files,
    summary: 'Set a file of an app',
    description: `Creates the file or replaces it. VMs get it with the next deployment, owned by the user of the program. An app has at most 64 files with ${maxFileBytes >> 10} KiB in total.`,
    ...shared,
    scope: 'write',
    params,
    body: PutAppFileRequest,
    bodyRequired: true,
    maxBytes: 1 << 20,
    fails: [409],
    answer: acknowledgement('set'),
  },
  deleteAppFile: {
    method: 'DELETE',
    path: files,
    summary: 'Delete a file of an app',
    description: 'Removes the file. Running VMs keep it until the next deployment.',
    ...shared,
    scope: 'write',
    params,
    query,
    answer: acknowledgement('deleted'),
  },
})
