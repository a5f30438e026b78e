import type { Socket } from 'node:net'
import { connectIn } from '../../lib/short-socket.ts'
import { consolePace, readPaced } from '../guest/pace.ts'

/** The guest's serial console. The agent retains only the last output, to explain failed boots. */
export interface Console {
  readonly connected: boolean
  tail(): string
  close(): void
}

const keptChars = 4096

export async function openConsole(dir: string): Promise<Console> {
  const socket = await connectIn(dir, 'console.sock').catch(() => undefined)
  return { connected: socket !== undefined, ...follow(socket), close: () => socket?.destroy() }
}

function follow(socket: Socket | undefined): Pick<Console, 'tail'> {
  let text = ''
  const take = (chunk: Buffer) => {
    text = (text + chunk.toString('latin1', Math.max(0, chunk.length - keptChars))).slice(-keptChars)
    return 0
  }
  if (socket)
    readPaced(
      socket.on('error', () => undefined),
      take,
      consolePace,
    )
  return { tail: () => text.replace(/[^\x20-\x7e\n]/g, '').trim() }
}
