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
/** An encoded path has up to three characters for each byte. */
const encodedText = (description: string, examples: readonly string[]) =>
  text({ minLength: 1, maxLength: 3 * maxPathBytes, description, examples })

const path = () => pathText('Absolute path in the VM.', ['/data/dump.sql'])
const encodedPath = () =>
  encodedText('Instead of `path`: the path with percent-encoded bytes, for names that are not UTF-8.', [
    '/data/caf%e9.txt',
  ])
const user = () =>
  text({
    maxLength: 64,
    description: 'Name or number of the user in the VM. Default: of the image.',
    examples: ['root'],
  })
const vmId = () => uuid({ description: 'The VM to use. Default: the first running VM of the deployment.' })

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
    uint32({ minimum: 1, maximum: 100, default: 1, description: 'Levels below the path.', examples: [1] }),
  ),
})
export const WriteFileQuery = Type.Object({
  ...place,
  mode: Type.Optional(
    text({
      pattern: '^[0-7]{3,4}$',
      'x-mote-pattern': 'three or four octal digits',
      description: 'Mode of the file. Default: of the file that it replaces, otherwise 644.',
      examples: ['640'],
    }),
  ),
})
export const RemoveFileQuery = Type.Object({
  ...place,
  recursive: Type.Optional(bool({ default: false, description: 'Whether a directory is removed with its content.' })),
})

const inBody = { path: maybe(path()), encoded_path: maybe(encodedPath()), user: maybe(user()), vm_id: maybe(vmId()) }

export const CreateVmDirectoryRequest = resource('CreateVmDirectoryRequest', inBody, {
  description: 'A directory to make, with its parents.',
})
export const MoveVmFileRequest = resource(
  'MoveVmFileRequest',
  {
    ...inBody,
    to: maybe(pathText('New absolute path, on the same file system.', ['/data/old.sql'])),
    encoded_to: maybe(encodedText('Instead of `to`: the new path with percent-encoded bytes.', ['/data/caf%e9-2.txt'])),
    replace: maybe(bool({ description: 'Whether a file at the new path is replaced. Default: false.' })),
  },
  { description: 'A file or directory and its new path.' },
)

const fileType = oneOf(['file', 'directory', 'symlink', 'other'], {
  description: '`other`: a device, a socket or a pipe, which cannot be read.',
})

export const VmFile = resource(
  'VmFile',
  {
    name: text({ description: 'Last part of the path.', examples: ['dump.sql'] }),
    path: text({
      description: 'Path in the VM. Bytes that are not UTF-8 are replaced by U+FFFD; use `encoded_path` then.',
      examples: ['/data/dump.sql'],
    }),
    encoded_path: text({ description: 'The path with percent-encoded bytes.', examples: ['/data/dump.sql'] }),
    type: fileType,
    mode: text({ description: 'Permissions in octal.', examples: ['0644'] }),
    size_bytes: int64({ minimum: 0, description: 'Size in bytes.', examples: [146_515] }),
    modified_at: dateTime({ description: 'When the content was last changed, to the second.' }),
    target: nullable(text({ description: 'Where a symbolic link leads; null for anything else.', examples: ['data'] })),
    target_type: nullable(
      oneOf(['file', 'directory', 'symlink', 'other'], {
        description: 'What a symbolic link leads to; null if it leads nowhere, and for anything else.',
      }),
    ),
  },
  { description: 'A file, a directory or a link in a VM.' },
)
export type VmFile = Static<typeof VmFile>

export const VmFileList = resource(
  'VmFileList',
  {
    vm_id: uuid({ description: 'The VM whose files these are.' }),
    path: text({ description: 'The directory.', examples: ['/data'] }),
    entries: list(VmFile, { description: 'In the order of their paths.' }),
    complete: bool({
      description:
        'Whether these are all entries. At most 2,000 and 1 MiB are listed; which ones, depends on the file system.',
    }),
  },
  { description: 'Content of a directory in a VM.' },
)

export const VmSpace = resource(
  'VmSpace',
  {
    size_bytes: int64({ minimum: 0, description: 'Size of the file system.', examples: [1_073_741_824] }),
    free_bytes: int64({ minimum: 0, description: 'Free space.', examples: [536_870_912] }),
    available_bytes: int64({ minimum: 0, description: 'Free space that the user can use.', examples: [482_344_960] }),
  },
  { description: 'Space of the file system that has a path.' },
)

export const WrittenVmFile = resource(
  'WrittenVmFile',
  {
    path: text({ description: 'Path in the VM.', examples: ['/data/dump.sql'] }),
    size_bytes: int64({ minimum: 0, description: 'Bytes that were written.', examples: [146_515] }),
  },
  { description: 'A file that was written.' },
)
