/**
 * Limits what a program writes into a directory while it runs, for programs whose output size is not known in advance.
 */
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

export interface SizeWatch extends AsyncDisposable {
  /** Aborts with `error` once the directory is larger than the limit. */
  readonly signal: AbortSignal
}

interface SizeLimit {
  readonly maxBytes: number
  readonly error: () => Error
  /** Interval of the measurements. In this time, a fast program may exceed the limit. */
  readonly everyMs?: number
}

/** Watches the size of a directory, which need not exist yet, until disposed. */
export function watchSize(dir: string, { maxBytes, error, everyMs = 500 }: SizeLimit): SizeWatch {
  const over = new AbortController()
  let measuring = Promise.resolve()
  const measure = async () => {
    if ((await bytesIn(dir)) > maxBytes) over.abort(error())
  }
  let isBusy = false
  const timer = setInterval(() => {
    if (isBusy) return
    isBusy = true
    measuring = measure().finally(() => {
      isBusy = false
    })
  }, everyMs)
  return {
    signal: over.signal,
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await measuring
    },
  }
}

/** Returns the size of all files below the directory. Files may appear and disappear meanwhile. */
async function bytesIn(dir: string): Promise<number> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true }).catch(() => [])
  const sizes = await Promise.all(
    entries
      .filter(entry => entry.isFile())
      .map(entry =>
        lstat(join(entry.parentPath, entry.name)).then(
          ({ size }) => size,
          () => 0,
        ),
      ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
