import { type Static, Type } from 'typebox'
import {
  bool,
  dateTime,
  int64,
  list,
  maybe,
  nullable,
  oneOf,
  rawText,
  resource,
  text,
  uint32,
  uuid,
} from '../http/types.ts'
import { maxPathBytes } from './file-paths.ts'

const pathText = (description: string, examples: readonly string[]) =>
  rawText({ minLength: 1, maxLength: maxPathBytes, description, examples })
/** Maximum length of a percent-encoded path: three characters for each byte. */
const encodedText = (description: string, examples: readonly string[]) =>
  text({ minLength: 1, maxLength: 3 * maxPathBytes, description, examples })

const path = () => pathText('Absolute path in the VM.', ['/data/dump.sql'])
const encodedPath = () =>
  encodedText('Path with percent-encoded bytes, for names that are not valid UTF-8. Used instead of `path`.', [
    '/data/caf%e9.txt',
  ])
const user = () =>
  text({
    maxLength: 64,
    description: 'Name or numeric id of the user in the VM who accesses the file. Default: the user of the image.',
    examples: ['root'],
  })
const vmId = () => uuid({ description: 'Id of the VM. Default: the first running VM of the deployment.' })

const place = {
  path: Type.Optional(path()),
  encoded_path: Type.Optional(encodedPath()),
  user: Type.Optional(user()),
  vm_id: Type.Optional(vmId()),
}
export const FileQuery = Type.Object(place)
export const ListFilesQuery = Type.Object({
  ...place,
  depth: Type.Optional(
    uint32({
      minimum: 1,
      maximum: 100,
      default: 1,
      description: 'Number of directory levels below the path to list.',
      examples: [1],
    }),
  ),
})
export const WriteFileQuery = Type.Object({
  ...place,
  mode: Type.Optional(
    text({
      pattern: '^[0-7]{3,4}$',
      'x-mote-pattern': 'three or four octal digits',
      description:
        'Permissions of the file, in octal digits. Default: those of the file that is replaced, or else 644.',
      examples: ['640'],
    }),
  ),
})
export const RemoveFileQuery = Type.Object({
  ...place,
  recursive: Type.Optional(
    bool({ default: false, description: 'Whether to remove a directory together with its content.' }),
  ),
})

const inBody = { path: maybe(path()), encoded_path: maybe(encodedPath()), user: maybe(user()), vm_id: maybe(vmId()) }

export const CreateVmDirectoryRequest = resource('CreateVmDirectoryRequest', inBody, {
  description: 'A directory to create, together with missing parent directories.',
})
export const MoveVmFileRequest = resource(
  'MoveVmFileRequest',
  {
    ...inBody,
    to: maybe(pathText('New absolute path, on the same file system.', ['/data/old.sql'])),
    encoded_to: maybe(
      encodedText('New path with percent-encoded bytes. Used instead of `to`.', ['/data/caf%e9-2.txt']),
    ),
    replace: maybe(bool({ description: 'Whether to replace a file that exists at the new path. Default: false.' })),
  },
  { description: 'A file or directory and its new path.' },
)

const fileType = oneOf(['file', 'directory', 'symlink', 'other'], {
  description: 'Type of the entry. `other`: a device, a socket or a pipe, which cannot be read.',
})

export const VmFile = resource(
  'VmFile',
  {
    name: text({ description: 'Name of the file: the last part of its path.', examples: ['dump.sql'] }),
    path: text({
      description:
        'Path in the VM. Bytes that are not valid UTF-8 are replaced by U+FFFD; for such paths use `encoded_path`.',
      examples: ['/data/dump.sql'],
    }),
    encoded_path: text({ description: 'Path in the VM, with percent-encoded bytes.', examples: ['/data/dump.sql'] }),
    type: fileType,
    mode: text({ description: 'Permissions of the file, in octal digits.', examples: ['0644'] }),
    size_bytes: int64({ minimum: 0, description: 'Size in bytes.', examples: [146_515] }),
    modified_at: dateTime({ description: 'When the content was last changed, accurate to the second.' }),
    target: nullable(text({ description: 'Target of a symbolic link; null for anything else.', examples: ['data'] })),
    target_type: nullable(
      oneOf(['file', 'directory', 'symlink', 'other'], {
        description:
          'Type of the file that a symbolic link points to; null if the target does not exist, and for anything but a link.',
      }),
    ),
  },
  { description: 'A file, a directory or a link in a VM.' },
)
export type VmFile = Static<typeof VmFile>

export const VmFileList = resource(
  'VmFileList',
  {
    vm_id: uuid({ description: 'Id of the VM that contains the files.' }),
    path: text({ description: 'Path of the directory in the VM.', examples: ['/data'] }),
    entries: list(VmFile, { description: 'Files and directories, sorted by path.' }),
    complete: bool({
      description:
        'Whether the list is complete. At most 2,000 entries and 1 MiB are listed; which entries are left out depends on the file system.',
    }),
  },
  { description: 'Entries of a directory in a VM.' },
)

export const VmSpace = resource(
  'VmSpace',
  {
    size_bytes: int64({ minimum: 0, description: 'Size of the file system in bytes.', examples: [1_073_741_824] }),
    free_bytes: int64({ minimum: 0, description: 'Free space in bytes.', examples: [536_870_912] }),
    available_bytes: int64({
      minimum: 0,
      description: 'Free space in bytes that the user may use.',
      examples: [482_344_960],
    }),
  },
  { description: 'Size and free space of the file system that contains a path.' },
)

export const WrittenVmFile = resource(
  'WrittenVmFile',
  {
    path: text({ description: 'Path in the VM.', examples: ['/data/dump.sql'] }),
    size_bytes: int64({ minimum: 0, description: 'Number of bytes that were written.', examples: [146_515] }),
  },
  { description: 'A file that was written.' },
)
