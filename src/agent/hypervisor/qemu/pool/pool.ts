/** QEMU processes that wait for a VM each, made when nobody waits for the host (decision 74). */
import { statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../../../lib/backoff.ts'
import type { WaitingVmm } from './waiting.ts'

export interface VmmPool {
  /** Starts may begin, and what an earlier agent left has gone: from now on there are some. Idempotent. */
  begin(): void
  /** One that waits, which is the caller's from now on; undefined: there is none. */
  take(): WaitingVmm | undefined
  /** One that was taken could not become a VM. */
  failed(error: unknown): void
  /** The pool makes none while somebody holds it so. */
  hold(): Disposable
  /** Those that wait now. */
  readonly waiting: number
  /** Ends those that wait, and waits for their end. Idempotent. */
  close(): Promise<void>
}

export const noPool: VmmPool = {
  begin: () => undefined,
  take: () => undefined,
  failed: () => undefined,
  hold: () => ({ [Symbol.dispose]: () => undefined }),
  waiting: 0,
  close: async () => undefined,
}

export interface PoolDeps {
  /** How many wait at most. */
  readonly size: number
  /** A private directory for the pool alone. */
  readonly dir: string
  readonly start: (signal: AbortSignal) => Promise<WaitingVmm>
  /** Files that a process that waits has read: when one of them is another one, so should the process be. */
  readonly madeOf: readonly string[]
  /** Of a series of failures the first. */
  readonly onError: (error: unknown) => void
  /** For so long no start was under way. */
  readonly quietMs?: number
}

const maxPauseMs = 60_000
/** It takes 30 ms; the first one, for which the library is compiled, a second. */
const startMs = 30_000

export function openPool({ size, dir, start, madeOf, onError, quietMs = 500 }: PoolDeps): VmmPool {
  const end = new AbortController()
  let ready: Array<{ readonly vmm: WaitingVmm; readonly kind: string }> = []
  let [holders, notBeforeMs, failures] = [0, 0, 0]
  let tending: Promise<void> | undefined
  let wake = Promise.withResolvers<void>()
  const poke = () => {
    wake.resolve()
    wake = Promise.withResolvers()
  }
  const wait = (ms: number) => {
    notBeforeMs = Math.max(notBeforeMs, performance.now() + ms)
  }
  const failed = (error: unknown) => {
    if (end.signal.aborted) return
    if (failures++ === 0) onError(error)
    wait(backoffMs(failures, Math.random(), { capMs: maxPauseMs }))
  }
  /** One that died while it waited counts as a failure: the next is made later. */
  const drop = (vmm: WaitingVmm, error: unknown) => {
    const left = ready.filter(one => one.vmm !== vmm)
    if (left.length === ready.length) return
    ready = left
    void vmm.end()
    failed(error)
    poke()
  }
  const leftMs = () => notBeforeMs - performance.now()
  const add = async () => {
    await mkdir(dir, { recursive: true, mode: 0o700 })
    const kind = kindOf(madeOf)
    const vmm = await start(AbortSignal.any([end.signal, AbortSignal.timeout(startMs)]))
    ready.push({ vmm, kind })
    vmm.ended.catch((error: unknown) => drop(vmm, error))
  }
  const tend = async () => {
    while (!end.signal.aborted) {
      const woken = wake.promise
      if (holders > 0 || ready.length >= size) await woken
      else if (leftMs() > 0) await sleep(leftMs(), undefined, { signal: end.signal, ref: false })
      else await add().catch(failed)
    }
  }
  return {
    begin() {
      wait(quietMs)
      tending ??= tend().catch(failed)
    },
    take() {
      const kind = ready.length > 0 ? kindOf(madeOf) : ''
      for (const one of ready.filter(other => other.kind !== kind)) void one.vmm.end()
      const [first, ...rest] = ready.filter(one => one.kind === kind)
      ready = rest
      if (first) failures = 0
      poke()
      return first?.vmm
    },
    failed,
    hold() {
      holders += 1
      return {
        [Symbol.dispose]() {
          holders -= 1
          wait(quietMs)
          poke()
        },
      }
    },
    get waiting() {
      return ready.length
    },
    async close() {
      end.abort()
      poke()
      await tending
      const left = ready
      ready = []
      await Promise.all(left.map(({ vmm }) => vmm.end()))
    },
  }
}

/** An upgrade replaces files, or writes them anew. */
function kindOf(files: readonly string[]): string {
  return files
    .map(file => {
      const { ino = 0, mtimeMs = 0, size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {}
      return `${ino} ${mtimeMs} ${size}`
    })
    .join()
}
