import type { Socket } from 'node:net'
import { consolePace, readPaced } from '../../guest/pace.ts'
import { openConsolePipe } from './pipes.ts'

/** Reads the sandbox's console and retains only the last output. */
export interface SandboxConsole {
  tail(): string
  close(): void
}

const keptChars = 4096

export function followConsole(dir: string): SandboxConsole {
  const socket: Socket = openConsolePipe(dir)
  let text = ''
  socket.on('error', () => undefined)
  readPaced(
    socket,
    chunk => {
      text = (text + chunk.toString('latin1', Math.max(0, chunk.length - keptChars))).slice(-keptChars)
      return 0
    },
    consolePace,
  )
  return {
    tail: () => text.replace(/[^\x20-\x7e\n]/g, '').trim(),
    close: () => socket.destroy(),
  }
}
