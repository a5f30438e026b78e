/**
 * The control and log ports of a sandbox. A sandbox inherits only its standard streams, so guest/sandbox.c carries both
 * ports over them. The streams are named pipes, and the sandbox keeps both ends of each open: they outlive the agent,
 * and the next agent opens them again.
 */
import { randomBytes } from 'node:crypto'
import { constants, openSync, writeSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { giveBytes, takeBytes } from '../../../lib/buffer-pool.ts'
import { sharedReads } from '../../../lib/shared-reads.ts'
import type { RunCommand } from '../../launcher/launcher.ts'
import { GuestFault } from '../../guest/fault.ts'
import type { GuestPorts } from '../../guest/ports.ts'

const names = { in: 'in.pipe', out: 'out.pipe', console: 'console.pipe' } as const

/** Paths of the pipes, in the order of the standard streams. */
export const pipesIn = (dir: string): { readonly in: string; readonly out: string; readonly console: string } => ({
  in: join(dir, names.in),
  out: join(dir, names.out),
  console: join(dir, names.console),
})

/** Creates the pipes in the VM's directory. Pipes of an earlier start are replaced. */
export async function makePipes(dir: string, runs: RunCommand): Promise<void> {
  const files = Object.values(pipesIn(dir))
  for (const file of files) await rm(file, { force: true })
  await runs('mkfifo', ['-m', '600', '--', ...files])
}

/**
 * Opens the pipes that become the standard streams of a sandbox, each for reading and writing, so that a pipe does not
 * end when one side closes it.
 */
export async function openStdio(dir: string): Promise<readonly [FileHandle, FileHandle, FileHandle]> {
  const both = (file: string) => open(file, constants.O_RDWR)
  const pipes = pipesIn(dir)
  return Promise.all([both(pipes.in), both(pipes.out), both(pipes.console)])
}

/** Enlarges the pipes that carry the ports, while they are open. @param program path of the compiled wide-pipes.c */
export const widenPipes = async (dir: string, program: string, runs: RunCommand): Promise<void> =>
  void (await runs(program, [join(dir, names.in), join(dir, names.out)]))

/** Opens the reading end of the console's pipe, with messages of the guest's init, and of runsc while it starts. */
export const openConsolePipe = (dir: string): Socket => readingEnd(join(dir, names.console))

/** Opens a pipe for reading. @param take called instead of `data` events, with bytes valid only during the call */
function readingEnd(file: string, take?: (bytes: Buffer) => void): Socket {
  const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  return new Socket({ fd, readable: true, writable: false, ...(take ? { onread: sharedReads(take) } : {}) })
}

interface WritingEnd {
  readonly fd: number
  readonly socket: Socket
}

/** Opens a pipe for writing. @throws Error ENXIO if the sandbox has exited */
function writingEnd(file: string): WritingEnd {
  const fd = openSync(file, constants.O_WRONLY | constants.O_NONBLOCK)
  return { fd, socket: new Socket({ fd, readable: false, writable: true }) }
}

/** Port numbers in frames, the same as in guest/sandbox.c. The guest sends a `sync` frame back. */
const port = { control: 0, log: 1, sync: 2 } as const
const headerBytes = 3
/** Maximum size of a frame to the guest: one page, which is PIPE_BUF, so a frame is written whole or not at all. */
const frameBytes = 4096
const dataBytes = frameBytes - headerBytes
/** Maximum number of data bytes in a frame from the guest (OUT_MAX in guest/sandbox.c). */
const maxGuestFrameBytes = 1 << 15

export function frameOf(which: number, data: Buffer): Buffer {
  const header = Buffer.from([which, data.length & 0xff, data.length >> 8])
  return Buffer.concat([header, data])
}

/** Splits the data into frames of one page each, except for the last frame. Returns all frames in one pooled buffer. */
export function framesFor(which: number, data: Buffer): Buffer {
  const count = Math.ceil(data.length / dataBytes)
  const frames = takeBytes(data.length + count * headerBytes)
  for (let n = 0; n < count; n++) {
    const part = data.subarray(n * dataBytes, (n + 1) * dataBytes)
    frames[n * frameBytes] = which
    frames.writeUInt16LE(part.length, n * frameBytes + 1)
    frames.set(part, n * frameBytes + headerBytes)
  }
  return frames
}

/**
 * Parses the frames that guest/sandbox.c sends.
 * @param nonce everything before the guest's echo of this nonce belongs to an earlier reader
 * @param onFrame called with data that is valid only during the call
 * @returns a function that takes chunks, which need to be valid only during the call. It throws GuestFault if a frame
 *   has an unknown port or is too long
 */
export function framesOf(nonce: string, onFrame: (which: number, data: Buffer) => void): (chunk: Buffer) => void {
  const mark = Buffer.from(`\0sync ${nonce}`)
  // The bytes of a frame that has not arrived completely.
  const held = Buffer.allocUnsafe(headerBytes + maxGuestFrameBytes)
  let heldBytes = 0
  let before: Buffer = Buffer.alloc(0)
  let isSynchronous = false
  const bytesOf = (header: Buffer) => {
    const length = header.readUInt16LE(1)
    if (header.readUInt8(0) > port.log || length > maxGuestFrameBytes) throw new GuestFault('a frame is invalid')
    return headerBytes + length
  }
  const give = (frame: Buffer) => onFrame(frame.readUInt8(0), frame.subarray(headerBytes))
  const hold = (bytes: Buffer, until: number) => {
    const copied = bytes.copy(held, heldBytes, 0, until - heldBytes)
    heldBytes += copied
    return copied
  }
  const take = (chunk: Buffer) => {
    let used = 0
    if (heldBytes > 0) {
      if (heldBytes < headerBytes) used += hold(chunk, headerBytes)
      if (heldBytes < headerBytes) return
      const wanted = bytesOf(held)
      used += hold(chunk.subarray(used), wanted)
      if (heldBytes < wanted) return
      heldBytes = 0
      give(held.subarray(0, wanted))
    }
    while (chunk.length - used >= headerBytes) {
      const end = used + bytesOf(chunk.subarray(used))
      if (end > chunk.length) break
      give(chunk.subarray(used, end))
      used = end
    }
    hold(chunk.subarray(used), held.length)
  }
  return chunk => {
    if (isSynchronous) return take(chunk)
    before = Buffer.concat([before, chunk])
    const at = before.indexOf(mark)
    if (at < 0) before = Buffer.from(before.subarray(Math.max(0, before.length - mark.length)))
    else {
      isSynchronous = true
      take(before.subarray(at + mark.length))
      before = Buffer.alloc(0)
    }
  }
}

/** Opens both ports when a caller requests the first one. Both also close together, because they share the pipes. */
export function pipePorts(dir: string): GuestPorts {
  let opening: Promise<readonly [Duplex, Duplex]> | undefined
  const both = () => {
    opening ??= openPorts(dir).then(ports => {
      for (const one of ports) one.once('close', () => (opening = undefined))
      return ports
    })
    return opening.catch((error: unknown) => {
      opening = undefined
      throw error
    })
  }
  return { control: async () => (await both())[port.control], log: async () => (await both())[port.log] }
}

async function openPorts(dir: string): Promise<readonly [Duplex, Duplex]> {
  const input = writingEnd(join(dir, names.in))
  const output = readingEnd(join(dir, names.out), bytes => onBytes(bytes))
  const write = writerOf(input)
  const ports = [port.control, port.log].map(which => portOf(which, write, () => output.resume()))
  // `give` may bypass the port's buffer, and the port's stream then does not call `read`. So resume the pipe here.
  for (const one of ports) one.on('resume', () => output.resume())
  const [control, log] = ports
  if (!control || !log) throw new Error('BUG: two ports')
  const endAll = (error?: Error) => {
    output.destroy()
    input.socket.destroy()
    for (const one of ports) one.destroy(error)
  }
  const nonce = randomBytes(8).toString('hex')
  const take = framesOf(nonce, (which, data) => {
    // If one port's reader is slow, pause the pipe. This also stops the other port, because both share the pipe.
    if (ports[which] && !give(ports[which], data)) output.pause()
  })
  const onBytes = (bytes: Buffer) => {
    try {
      take(bytes)
    } catch (error) {
      endAll(error instanceof Error ? error : undefined)
    }
  }
  for (const end of [output, input.socket]) end.on('error', () => undefined).on('close', () => endAll())
  for (const one of ports) one.on('error', () => undefined).once('close', () => endAll())
  // Ignore errors: if the pipe has closed, the ports are closed as well.
  write(frameOf(port.sync, Buffer.from(nonce))).catch(() => undefined)
  return [control, log]
}

/** Passes bytes to a port, without a copy if it is being read. Returns false if the port does not accept more now. */
function give(to: Duplex, bytes: Buffer): boolean {
  if (to.destroyed) return true
  if (!to.readableFlowing || to.readableLength > 0) return to.push(Buffer.from(bytes))
  to.emit('data', bytes)
  return !to.isPaused()
}

type Write = (frames: Buffer) => Promise<void>

/** Returns a function that writes frames to the pipe. Frames of concurrent calls are written one call after another. */
function writerOf({ fd, socket }: WritingEnd): Write {
  let last: Promise<void> = Promise.resolve()
  const whenWritable = (frame: Buffer) =>
    new Promise<void>((resolve, reject) => {
      socket.write(frame, error => (error ? reject(error) : resolve()))
    })
  const writeAll = async (frames: Buffer) => {
    for (let at = 0; at < frames.length; ) {
      if (socket.destroyed) throw new Error('the pipe is closed')
      at += writtenAtOnce(fd, frames, at)
      if (at === frames.length) return
      // Write one frame only: libuv would split a longer buffer in the middle of a frame.
      const frame = frames.subarray(at, at + frameBytes - (at % frameBytes))
      await whenWritable(frame)
      at += frame.length
    }
  }
  return frames => {
    const written = last.then(() => writeAll(frames))
    last = written.catch(() => undefined)
    return written
  }
}

/**
 * Writes as many frames as the pipe accepts now, and returns their size in bytes. If the length is a multiple of the
 * page size, a pipe accepts whole pages only, so no frame is split. Writing one frame per turn of the event loop would
 * take far longer.
 * @throws Error EPIPE
 */
function writtenAtOnce(fd: number, frames: Buffer, from: number): number {
  const pages = Math.floor((frames.length - from) / frameBytes) * frameBytes
  const written = pages > 0 ? taken(fd, frames.subarray(from, from + pages)) : 0
  return written < pages ? written : written + taken(fd, frames.subarray(from + pages))
}

function taken(fd: number, bytes: Buffer): number {
  if (bytes.length === 0) return 0
  try {
    return writeSync(fd, bytes)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return 0
    throw error
  }
}

function portOf(which: number, write: Write, onRead: () => void): Duplex {
  return new Duplex({
    // When one direction of the port ends, the other one ends, too.
    allowHalfOpen: false,
    read: onRead,
    async write(chunk: Buffer, _encoding, done) {
      try {
        const frames = framesFor(which, chunk)
        await write(frames)
        giveBytes(frames)
      } catch (error) {
        return done(error instanceof Error ? error : new Error(String(error)))
      }
      done()
    },
  })
}
