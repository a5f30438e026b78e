import { createServer, type Socket } from 'node:net'

/** A fake guest without a VM: speaks the protocol of the guest's init on the Unix socket of a vsock device. */
export interface FakeGuest {
  /** Breaks all connections, as taking a snapshot does. */
  cut(): void
  close(): void
}

interface Hooks {
  /** Called when the guest is asked to shut down. */
  readonly onOff: () => void
  /** Returns whether the VM currently has a disk with this serial number. */
  readonly hasDisk: (serial: string) => boolean
  /** Returns the size of the disk with this serial number as the guest sees it, in bytes. */
  readonly sizeOf: (serial: string) => number
  /** Returns the drive that a guest finds for this serial number, as `findDisk` (build/scripts.ts) searches for it. */
  readonly drive: (serial: string) => { readonly readOnly: boolean } | undefined
  /** Returns whether the guest is paused, so that it does not read its ports. */
  readonly paused: () => boolean
}

/** Starts the guest. It logs `hello` once, and answers every command that drivers send; it rejects all others. */
export function serveFakeGuest(path: string, hooks: Hooks): Promise<FakeGuest> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    eachLine(socket, line => {
      const port = /^CONNECT (\d+)$/.exec(line)?.[1]
      if (hooks.paused() || (port !== '1001' && port !== '1002')) return void socket.destroy()
      socket.write('OK 1073741824\n')
      return port === '1001' ? (text: string) => control(socket, text, hooks) : (text: string) => log(socket, text)
    })
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      const cut = () => sockets.forEach(socket => socket.destroy())
      resolve({
        cut,
        close() {
          cut()
          server.close()
        },
      })
    })
  })
}

type OnLine = (line: string) => OnLine | void

/** Calls the handler for each line. A handler may return another one for the following lines. */
function eachLine(socket: Socket, first: OnLine): void {
  let onLine = first
  let rest = ''
  socket.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine = onLine(line) ?? onLine
  })
}

function control(socket: Socket, line: string, hooks: Hooks): void {
  const [id = '', verb = '', ...words] = line.split(' ')
  if (id === '' || hooks.paused()) return
  const answers: Readonly<Record<string, () => string>> = {
    status: () => 'ok running 7',
    start: () => 'ok',
    listening: () => 'ok 1',
    net: () => 'ok 10 20',
    memory: () => `ok ${128 * 2 ** 20} ${96 * 2 ** 20}`,
    identity: () => (words.some(word => word.startsWith('seed=')) ? 'ok' : 'err no entropy'),
    mount: () => (hooks.hasDisk(words[0] ?? '') ? 'ok' : 'err absent'),
    unmount: () => (hooks.hasDisk(words[0] ?? '') ? 'ok' : 'err absent'),
    grow: () => (hooks.sizeOf(words[0] ?? '') >= Number(words[2]) * 2 ** 20 ? 'ok' : 'err absent'),
    // `drive <serial>` exits with 0 for a writable disk, 1 for a read-only disk, 2 for no disk.
    exec: () => `ok ${words[1] === 'drive' ? kindOf(hooks.drive(words[2] ?? '')) : 0} 0`,
    off: () => 'ok',
  }
  socket.write(`${id} ${answers[verb]?.() ?? 'err unknown verb'}\n`)
  if (verb === 'off') setTimeout(hooks.onOff, 20)
}

function kindOf(drive: { readonly readOnly: boolean } | undefined): number {
  return drive ? Number(drive.readOnly) : 2
}

function log(socket: Socket, line: string): void {
  const [word, seq, nonce] = line.split(' ')
  if (word !== 'from') return
  socket.write(`\nH ${nonce} 1000 1\n`)
  if (Number(seq) < 1) socket.write('L 1 500 1 5\nhello\n')
}
