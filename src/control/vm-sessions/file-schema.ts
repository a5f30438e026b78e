import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, text } from '../http/types.ts'
import {
  CreateVmDirectoryRequest,
  FileQuery,
  ListFilesQuery,
  MoveVmFileRequest,
  RemoveFileQuery,
  VmFile,
  VmFileList,
  VmSpace,
  WriteFileQuery,
  WrittenVmFile,
} from './file-resources.ts'

const base = '/v1/apps/{app_name}/deployments/{job_id}/files'
const ofJob = Type.Object({
  app_name: text({ description: 'Name of the app.', examples: ['web'] }),
  job_id: text({ description: 'Job id, or UUID of the deployment.', examples: ['job-3f6d0c4f2a1097e0'] }),
})
const shared = {
  tag: 'VM files',
  auth: 'bearer',
  project: 'selected',
  scope: 'exec',
  addition: true,
  params: ofJob,
  fails: [409],
} as const
/** Options of all read operations. The response comes from the VM and may contain secrets, so it is not stored. */
const read = { ...shared, method: 'GET', asksOthers: true, secretAnswer: true } as const

/** Maximum size of an uploaded file. VM disks are rarely larger. */
const maxUploadBytes = 64 * 2 ** 30

export const vmFileOperations = operations({
  listVmFiles: {
    ...read,
    path: base,
    summary: 'List a directory in a VM',
    description: 'Lists a directory in a running VM. The image needs no program for this.',
    query: ListFilesQuery,
    answer: VmFileList,
  },
  getVmFile: {
    ...read,
    path: `${base}/stat`,
    summary: 'Get the properties of a file in a VM',
    description:
      'Returns the type, size, permissions and modification time of one file. Symbolic links are not followed.',
    query: FileQuery,
    answer: VmFile,
  },
  getVmSpace: {
    ...read,
    path: `${base}/space`,
    summary: 'Get the free space of a file system in a VM',
    description: 'Returns the size and free space of the file system that contains the path.',
    query: FileQuery,
    answer: VmSpace,
  },
  readVmFile: {
    ...read,
    path: `${base}/content`,
    summary: 'Download a file from a VM',
    description:
      'Sends the bytes of a file, or those of a `Range`. The `ETag` changes when the file changes: use it as `If-Range` to resume a download. If the file becomes shorter during the download, the connection is closed before `Content-Length` bytes are sent.',
    query: FileQuery,
    answer: 'bytes',
    fails: [409, 416],
  },
  writeVmFile: {
    ...shared,
    method: 'PUT',
    path: `${base}/content`,
    summary: 'Upload a file to a VM',
    description:
      'Writes the body to a file, and creates missing parent directories. The file is replaced atomically once the whole body has arrived; an interrupted upload leaves the old file unchanged.',
    query: WriteFileQuery,
    upload: { maxBytes: maxUploadBytes },
    answer: WrittenVmFile,
  },
  createVmDirectory: {
    ...shared,
    method: 'POST',
    path: `${base}/directories`,
    summary: 'Create a directory in a VM',
    description: 'Creates a directory and its missing parent directories. An existing directory stays unchanged.',
    body: CreateVmDirectoryRequest,
    answer: acknowledgement('created'),
  },
  moveVmFile: {
    ...shared,
    method: 'POST',
    path: `${base}/move`,
    summary: 'Rename a file in a VM',
    description: 'Renames or moves a file or directory within one file system.',
    body: MoveVmFileRequest,
    answer: acknowledgement('moved'),
  },
  removeVmFile: {
    ...shared,
    method: 'DELETE',
    path: base,
    summary: 'Remove a file from a VM',
    description: 'Removes a file, a link or an empty directory, or with `recursive` a directory with its content.',
    query: RemoveFileQuery,
    answer: acknowledgement('removed'),
  },
})
