/** Operations on the files that an app's VMs get. */
import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, bool, dateTime, int32, list, maybe, nullable, resource, text } from '../http/types.ts'
import { maxFileBytes, maxPathChars } from './file-rules.ts'

const path = () =>
  text({ maxLength: maxPathChars, description: 'Absolute path in the VM.', examples: ['/etc/app/app.conf'] })
const mode = { description: 'Permissions of the file, in octal digits.', examples: ['0644'] }

export const AppFile = resource(
  'AppFile',
  {
    path: path(),
    mode: text(mode),
    secret: bool({ description: 'Whether the file is a secret, whose content is never shown.', examples: [false] }),
    variable: nullable(
      text({
        description: "Name of the variable whose value is the file's content; null if the content was set directly.",
        examples: [null],
      }),
    ),
    size_bytes: int32({
      description: 'Size of the content in bytes; 0 if the content comes from a variable.',
      examples: [312],
    }),
    sha256: nullable(
      text({
        description: 'SHA-256 digest of the content, 64 hexadecimal digits; null for a secret.',
        examples: ['e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
      }),
    ),
    updated_at: dateTime({ description: 'When the file was last set.' }),
  },
  { description: 'A file that is written to the VMs of an app before their program starts.' },
)

export const AppFileContent = resource(
  'AppFileContent',
  {
    path: path(),
    content: nullable(
      text({ description: 'Content of the file in base64; null for a secret.', examples: ['bGV2ZWw9MQo='] }),
    ),
  },
  { description: 'A file of an app with its content.' },
)

export const PutAppFileRequest = resource('PutAppFileRequest', {
  path: path(),
  mode: maybe(text({ ...mode, maxLength: 4, description: 'Permissions of the file, in octal digits. Default: 0644.' })),
  content: maybe(
    text({
      maxLength: Math.ceil(maxFileBytes / 3) * 4,
      description: 'Content of the file in base64. Either `content` or `variable` is required.',
      examples: ['bGV2ZWw9MQo='],
    }),
  ),
  variable: maybe(
    text({
      maxLength: 128,
      description: "Name of a variable of the app, whose value becomes the file's content.",
      examples: [null],
    }),
  ),
  secret: maybe(
    bool({
      description: 'Whether the content is never shown again. Default: false; with `variable` always true.',
      examples: [false],
    }),
  ),
})

const shared = { tag: 'Apps', auth: 'bearer', project: 'selected', addition: true } as const
const params = Type.Object({ app_name: text({ description: 'Name of the app.', examples: ['web'] }) })
/**
 * The parameter `path` is optional, so that a request without it gets the same 404 as a request for an unknown path.
 */
const query = Type.Object({ path: Type.Optional(path()) })
const files = '/v1/apps/{app_name}/files'

export const appFileOperations = operations({
  listAppFiles: {
    method: 'GET',
    path: files,
    summary: 'List the files of an app',
    description:
      "Returns the files that are written to the app's VMs before their program starts, without their contents.",
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
    description: 'Returns one file with its content. The content of a secret file is never shown.',
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
    description: `Creates or replaces the file. VMs get it with the next deployment; it belongs to the user that runs the program. An app can have at most 64 files with ${maxFileBytes >> 10} KiB in total.`,
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
