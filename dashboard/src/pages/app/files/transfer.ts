/**
 * Uploads and downloads with progress. `fetch` does not report the progress of uploads, so these use XMLHttpRequest.
 */
import { ApiFailure } from '@mote/client'
import { api, refresh } from '../../../api/client.ts'
import { currentProject } from '../../../api/project.ts'
import { currentToken, renew } from '../../../api/session.ts'
import { createStore } from '../../../api/store.ts'
import { saveBlob } from '../../../ui/save.ts'

/** The VM whose files are shown. */
export interface Place {
  readonly app_name: string
  readonly job_id: string
  readonly vm_id: string
}

export interface Transfer {
  readonly id: number
  readonly kind: 'Uploading' | 'Downloading'
  readonly name: string
  readonly doneBytes: number
  /** Size of the file; undefined: the size is unknown. */
  readonly totalBytes: number | undefined
  readonly cancel: () => void
}

/** Running transfers, which continue while another page is open. */
export const transfers = createStore<readonly Transfer[]>([])
let count = 0

type OnProgress = (doneBytes: number, totalBytes?: number) => void

/**
 * Runs a transfer, which `transfers` lists until it ends. If the user cancels it, the promise resolves without an
 * error.
 */
async function shown(
  kind: Transfer['kind'],
  name: string,
  totalBytes: number | undefined,
  run: (signal: AbortSignal, onProgress: OnProgress) => Promise<void>,
): Promise<void> {
  const id = ++count
  const canceled = new AbortController()
  transfers.set([...transfers.get(), { id, kind, name, doneBytes: 0, totalBytes, cancel: () => canceled.abort() }])
  try {
    await run(canceled.signal, (doneBytes, total = totalBytes) =>
      transfers.set(transfers.get().map(one => (one.id === id ? { ...one, doneBytes, totalBytes: total } : one))),
    )
  } catch (cause) {
    if (!canceled.signal.aborted) throw cause
  } finally {
    transfers.set(transfers.get().filter(one => one.id !== id))
  }
}

export const upload = (place: Place, encoded_path: string, file: File) =>
  shown('Uploading', file.name, file.size, async (signal, onProgress) => {
    const send = () => put(urlOf(place, encoded_path), file, signal, onProgress)
    const token = currentToken()
    const answer = await send()
    if (answer.status === 401 && (await renew(token, refresh))) failOn(await send())
    else failOn(answer)
  })

function urlOf({ app_name, job_id, vm_id }: Place, encoded_path: string): string {
  const query = new URLSearchParams({ encoded_path, vm_id })
  return `/v1/apps/${encodeURIComponent(app_name)}/deployments/${encodeURIComponent(job_id)}/files/content?${query}`
}

const put = (url: string, file: File, signal: AbortSignal, onProgress: OnProgress) =>
  new Promise<XMLHttpRequest>((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('PUT', url)
    request.setRequestHeader('authorization', `Bearer ${currentToken() ?? ''}`)
    request.setRequestHeader('content-type', 'application/octet-stream')
    const project = currentProject.get()
    if (project !== undefined) request.setRequestHeader('x-project', project)
    request.upload.addEventListener('progress', ({ loaded }) => onProgress(loaded))
    request.addEventListener('load', () => resolve(request))
    request.addEventListener('error', () => reject(new TypeError('the connection was lost')))
    request.addEventListener('abort', () => reject(new DOMException('canceled', 'AbortError')))
    signal.addEventListener('abort', () => request.abort(), { once: true })
    request.send(file)
  })

/** Checks the status of a response. @throws ApiFailure if it is not 2xx */
function failOn({ status, responseText }: XMLHttpRequest): void {
  if (status >= 200 && status < 300) return
  const body: unknown = responseText.startsWith('{') ? JSON.parse(responseText) : {}
  throw new ApiFailure(status, Object.fromEntries(Object.entries(Object(body))))
}

export const download = (place: Place, encoded_path: string, name: string) =>
  shown('Downloading', name, undefined, async (signal, onProgress) => {
    const { app_name, job_id, vm_id } = place
    const response = await api.readVmFile({ app_name, job_id, query: { encoded_path, vm_id } }, { signal })
    const total = Number(response.headers.get('content-length')) || undefined
    const parts: Uint8Array<ArrayBuffer>[] = []
    let done = 0
    for await (const part of response.body ?? []) {
      parts.push(part)
      done += part.length
      onProgress(done, total)
    }
    saveBlob(new Blob(parts), name)
  })
