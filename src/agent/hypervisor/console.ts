import type { Socket } from 'node:net'
import { connectIn } from '../../lib/short-socket.ts'

/** The guest's serial console: only its end is kept, to explain a boot that failed. */
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
  socket?.setEncoding('latin1').on('error', () => undefined)
  socket?.on('data', (chunk: string) => {
    text = (text + chunk).slice(-keptChars)
  })
  return { tail: () => text.replace(/[^\x20-\x7e\n]/g, '').trim() }
}
