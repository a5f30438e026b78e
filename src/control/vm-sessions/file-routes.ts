import { posix } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import type { Deps } from '../base/deps.ts'
import { writeAudit } from '../audit/index.ts'
import { ApiError, invalidField, notFound } from '../http/errors.ts'
import { type AuditNote, type ByteAnswer, type Call, feature, type Handlers } from '../http/operation.ts'
import { mostEntries, readEntries, readSpace, takeHead } from './file-list.ts'
import { asDirectory, nameOf, toolCommand, type VmPath, vmPath } from './file-paths.ts'
import { vmFileOperations } from './file-schema.ts'
import { type FilePlace, type FileSession, openFileSession } from './file-session.ts'
import { deploymentOf, type JobCall } from './job.ts'
import { vmIdFor } from './open.ts'
import { rangeOf } from './range.ts'

type Operations = typeof vmFileOperations
type FileDeps = Pick<Deps, 'db' | 'bus' | 'clock'>

export const vmFileFeature = (deps: FileDeps) => feature(vmFileOperations, { ...readers(deps), ...writers(deps) })

type Reads = 'listVmFiles' | 'getVmFile' | 'getVmSpace' | 'readVmFile'

const readers = (deps: FileDeps): Handlers<Pick<Operations, Reads>> => ({
  listVmFiles: {
    read: async call => {
      const { place, path } = await requested(deps, call, call.query)
      const tool = toolCommand('list', [asDirectory(path)], [String(call.query.depth ?? 1)])
      await using session = await openFileSession(deps, place, tool)
      // The first entry of the tool's output is the directory itself.
      const { entries, isComplete } = await readEntries(session.output(), mostEntries + 1)
      await auditRead(deps, call, noteOf('vm.files_listed', place, path))
      const sorted = entries.slice(1).sort((a, b) => (a.path < b.path ? -1 : 1))
      return { vm_id: place.vmId, path: path.text, entries: sorted, complete: isComplete }
    },
  },
  getVmFile: {
    read: async call => {
      const { place, path } = await requested(deps, call, call.query)
      await using session = await openFileSession(deps, place, toolCommand('list', [path], ['0']))
      const { entries } = await readEntries(session.output(), 1)
      await auditRead(deps, call, noteOf('vm.files_listed', place, path))
      const [found] = entries
      if (!found) throw notFound()
      return found
    },
  },
  getVmSpace: {
    read: async call => {
      const { place, path } = await requested(deps, call, call.query)
      await using session = await openFileSession(deps, place, toolCommand('space', [path]))
      // Await the result, because `await using` ends the session when this function returns.
      return await readSpace(session.output())
    },
  },
  readVmFile: {
    bytes: async call => {
      const { place, path } = await requested(deps, call, call.query)
      const range = rangeOf(call.headers['range'], call.headers['if-range'])
      const session = await openFileSession(deps, place, toolCommand('get', [path], range))
      const end = () => void session[Symbol.asyncDispose]()
      // The server aborts the signal after every response. End the session also if the signal is already aborted.
      if (place.signal.aborted) end()
      place.signal.addEventListener('abort', end, { once: true })
      const answer = await download(session, path, range !== undefined)
      await auditRead(deps, call, noteOf('vm.file_read', place, path))
      return answer
    },
  },
})

const writers = (deps: FileDeps): Handlers<Omit<Operations, Reads>> => ({
  writeVmFile: {
    write: async call => {
      const { place, path } = await requested(deps, call, call.query)
      const { mode } = call.query
      const tool = toolCommand('write', [path], mode === undefined ? [] : [mode])
      await using session = await openFileSession(deps, place, tool, true)
      const size_bytes = await upload(session, call.body, place.signal)
      return async () => {
        call.audit(noteOf('vm.file_written', place, path, { size_bytes }))
        return { path: path.text, size_bytes }
      }
    },
  },
  createVmDirectory: {
    write: async call => {
      const { place, path } = await requested(deps, call, call.body)
      await change(deps, place, toolCommand('mkdir', [path]))
      return async () => {
        call.audit(noteOf('vm.directory_created', place, path))
        return { status: 'created' as const }
      }
    },
  },
  moveVmFile: {
    write: async call => {
      const { place, path } = await requested(deps, call, call.body)
      const to = vmPath('to', call.body.to, call.body.encoded_to)
      await change(deps, place, toolCommand('move', [path, to], [call.body.replace ? '0' : '1']))
      return async () => {
        call.audit(noteOf('vm.file_moved', place, path, { to: shown(to) }))
        return { status: 'moved' as const }
      }
    },
  },
  removeVmFile: {
    write: async call => {
      const { place, path } = await requested(deps, call, call.query)
      const recursive = call.query.recursive ?? false
      if (posix.normalize(path.text) === '/')
        throw invalidField('path', 'is the root of the VM. Remove something in it')
      await change(deps, place, toolCommand('remove', [path], [recursive ? '1' : '0']))
      return async () => {
        call.audit(noteOf('vm.file_removed', place, path, { recursive }))
        return { status: 'removed' as const }
      }
    },
  },
})

/** The fields that queries and bodies of file operations share. */
interface Wanted {
  readonly path?: string | null
  readonly encoded_path?: string | null
  readonly user?: string | null
  readonly vm_id?: string | null
}
type FileCall = JobCall & Pick<Call<Operations['getVmFile']>, 'caller' | 'signal'>

async function requested(
  { db }: FileDeps,
  call: FileCall,
  wanted: Wanted,
): Promise<{ readonly place: FilePlace; readonly path: VmPath }> {
  const deployment = await deploymentOf(db, call)
  const path = vmPath('path', wanted.path, wanted.encoded_path)
  const vmId = await vmIdFor(db, deployment, wanted.vm_id ?? undefined)
  const { caller, signal } = call
  const user = wanted.user ?? undefined
  return { place: { deployment, vmId, caller, user, signal }, path }
}

async function change(deps: FileDeps, place: FilePlace, tool: ReturnType<typeof toolCommand>): Promise<void> {
  await using session = await openFileSession(deps, place, tool)
  await session.done()
}

async function download(session: FileSession, path: VmPath, isPart: boolean): Promise<ByteAnswer> {
  const output = session.output()
  const { head, rest } = await takeHead(output)
  const { version, first, count } = head
  const sizeBytes = head.sizeBytes < 0 ? undefined : head.sizeBytes
  const name = nameOf(path)
  if (first < 0) return { name, version, sizeBytes, body: undefined }
  // If the file no longer has the version of `If-Range`, the tool ignores the range and sends the whole file.
  const part = isPart && sizeBytes !== undefined && count < sizeBytes ? { first, count } : undefined
  return { name, version, sizeBytes, part, body: contentOf(output, rest, sizeBytes === undefined ? undefined : count) }
}

/**
 * Yields the content of a file, and throws an error if its length is not `count`.
 * @param count number of bytes announced to the client; undefined: unknown
 */
async function* contentOf(output: AsyncIterable<Buffer>, rest: Buffer, count: number | undefined) {
  let left = count ?? Number.POSITIVE_INFINITY
  const within = (data: Buffer) => {
    left -= data.length
    if (left < 0) throw new ApiError('unavailable', 'The VM sent more bytes than the requested range.')
    return data
  }
  if (rest.length > 0) yield within(rest)
  for await (const data of output) yield within(data)
  if (count !== undefined && left > 0)
    throw new ApiError('unavailable', 'The VM sent fewer bytes than the requested range.')
}

async function upload(session: FileSession, body: Readable, signal: AbortSignal): Promise<number> {
  try {
    const written = await session.write(addAbortSignal(signal, body))
    await session.done()
    return written
  } catch (cause) {
    if (!signal.aborted) throw cause
    throw new ApiError('invalid_request', 'The connection was closed before the whole file had arrived.', { cause })
  }
}

/** Writes the audit entry of a read in a transaction of its own, because read operations run without a transaction. */
const auditRead = ({ db }: FileDeps, call: Call<Operations['getVmFile']>, note: AuditNote) =>
  db.tx(async tx => {
    const { caller, ip, project, requestId } = call
    writeAudit(tx, { userId: caller.userId, projectId: project.id, via: caller.via, ip, requestId }, note)
  })

const maxShown = 1000
const shown = ({ text, encoded, isText }: VmPath) => (isText ? text : encoded).slice(0, maxShown)

const noteOf = (
  action: string,
  { deployment, vmId }: FilePlace,
  path: VmPath,
  details: Readonly<Record<string, unknown>> = {},
): AuditNote => ({
  action,
  resourceType: 'deployment',
  resourceId: deployment.id,
  details: { vm_id: vmId, path: shown(path), ...details },
})
