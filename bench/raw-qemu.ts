/** Starts QEMU directly, with a VM without kernel, disk or network. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectQmp, type Qmp } from '../src/agent/hypervisor/qemu/qmp.ts'
import { until } from '../test/support/wait.ts'

export interface RawQemu extends AsyncDisposable {
  readonly child: ChildProcess
  readonly qmp: Qmp
  /** Milliseconds from the start of the QEMU process to the first response of its monitor. */
  readonly ms: number
}

const machine = ['-M', 'microvm', '-m', '128', '-nodefaults', '-display', 'none']

/** Starts QEMU with 128 MiB. Its virtual processor runs QEMU's firmware. */
export async function rawQemu(): Promise<RawQemu> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  const began = performance.now()
  const args = [...machine, '-qmp', 'unix:qmp.sock,server=on,wait=off']
  const child = spawn('qemu-system-x86_64', args, { cwd: dir, stdio: 'ignore' })
  const qmp = await until(() => connectQmp(dir, 'qmp.sock'), { what: 'QEMU answers', timeoutMs: 20_000, everyMs: 1 })
  return {
    child,
    qmp,
    ms: performance.now() - began,
    async [Symbol.asyncDispose]() {
      qmp.close()
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL')
        await once(child, 'exit')
      }
      await rm(dir, { recursive: true, force: true })
    },
  }
}
