/**
 * Parses the process list that the guest's init prints (guest/processes.c). The guest is not trusted, so the output is
 * validated.
 */
import { decodeWord } from '../../lib/words.ts'
import { ApiError } from '../http/errors.ts'
import type { VmProcess } from './process-resources.ts'

const mostBytes = 1 << 20
const maxLineBytes = 4096
const mostProcesses = 2_000
const linePattern = /^(\d{1,10}) (\d{1,10}) (\d{1,10}) ([A-Za-z]) (\d{1,15}) (\d{1,12}) ([\x21-\x7e]*)$/

/**
 * Returns the first 2,000 processes, or those in the first MiB of output.
 * @throws ApiError 503 if the output is not a process list
 */
export async function readProcesses(output: AsyncIterable<Buffer>): Promise<VmProcess[]> {
  const found: VmProcess[] = []
  let rest = ''
  let bytes = 0
  for await (const part of output) {
    bytes += part.length
    const lines = (rest + part.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      found.push(parseProcess(line))
      if (found.length === mostProcesses) return found
    }
    if (bytes > mostBytes) return found
    if (rest.length > maxLineBytes) throw unreadable()
  }
  return found
}

function parseProcess(line: string): VmProcess {
  const [, pid = '', parent, user, state = '', cpuMs, memoryKib, command = ''] = linePattern.exec(line) ?? []
  if (pid === '') throw unreadable()
  return {
    pid: Number(pid),
    parent_pid: Number(parent),
    user_id: Number(user),
    state,
    cpu_ms: Number(cpuMs),
    memory_kib: Number(memoryKib),
    command: decodeWord(command).toString(),
  }
}

const unreadable = () => new ApiError('unavailable', 'The VM sent an invalid process list. Try again.')
