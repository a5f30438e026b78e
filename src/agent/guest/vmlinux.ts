import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { childEnv } from '../../lib/child-env.ts'

const bootProtocolMagic = 'HdrS'

/**
 * Extracts the ELF kernel from a bzImage. The ELF kernel starts through PVH and need not decompress itself under
 * emulation, which takes 0.7 s of a 2.5 s boot. Offsets: Linux Documentation/arch/x86/boot.rst, `payload_offset` and
 * `payload_length` (boot protocol 2.08).
 * @throws Error if the file is not a bzImage, or is not compressed with gzip, lz4, zstd or xz.
 */
export async function extractVmlinux(bzImage: Buffer): Promise<Buffer> {
  if (bzImage.subarray(0x202, 0x206).toString('latin1') !== bootProtocolMagic) throw new Error('not a Linux bzImage')
  const setupSectors = bzImage[0x1f1] || 4
  const start = (setupSectors + 1) * 512 + bzImage.readUInt32LE(0x248)
  const payload = bzImage.subarray(start, start + bzImage.readUInt32LE(0x24c))
  const elf = await decompress(payload)
  if (elf.subarray(0, 4).toString('latin1') !== '\x7fELF') throw new Error('the kernel image holds no ELF payload')
  return elf
}

async function decompress(payload: Buffer): Promise<Buffer> {
  const magic = payload.readUInt32BE(0)
  if (magic === 0x02214c18) return lz4Legacy(payload)
  if (magic === 0x28b52ffd) return zstdDecompressSync(payload.subarray(0, -4))
  if (magic >>> 16 === 0x1f8b) return gunzipSync(payload.subarray(0, -4))
  if (magic === 0xfd377a58) return unxz(payload.subarray(0, -4))
  throw new Error(`the kernel is compressed in an unknown way (magic ${magic.toString(16)})`)
}

/** Decompresses with the `xz` program, because Node.js has no xz decoder. */
export async function unxz(data: Buffer): Promise<Buffer> {
  const running = promisify(execFile)('xz', ['-dc'], { encoding: 'buffer', maxBuffer: 1 << 28, env: childEnv('xz') })
  running.child.stdin?.end(data)
  return (await running).stdout
}

/** The "legacy" lz4 frame that `lz4 -l` writes: blocks of at most 8 MiB, each with its compressed size in front. */
function lz4Legacy(data: Buffer): Buffer {
  const blocks: Buffer[] = []
  // Ignore the last four bytes: the uncompressed size, which the kernel build appends.
  for (let at = 4; at + 4 <= data.length - 4; ) {
    const size = data.readUInt32LE(at)
    blocks.push(lz4Block(data.subarray(at + 4, at + 4 + size), 8 << 20))
    at += 4 + size
  }
  return Buffer.concat(blocks)
}

/** Decompresses one raw block (lz4's doc/lz4_Block_format.md). */
export function lz4Block(source: Buffer, maxBytes: number): Buffer {
  const target = Buffer.allocUnsafe(maxBytes)
  let from = 0
  let to = 0
  const longLength = (length: number): number => {
    if (length !== 15) return length
    let total = length
    for (let byte = 255; byte === 255; total += byte) byte = source[from++] ?? 0
    return total
  }
  while (from < source.length) {
    const token = source[from++] ?? 0
    const literals = longLength(token >> 4)
    source.copy(target, to, from, from + literals)
    from += literals
    to += literals
    if (from >= source.length) break
    const distance = source.readUInt16LE(from)
    from += 2
    const length = longLength(token & 15) + 4
    if (distance === 0 || distance > to || to + length > maxBytes) throw new Error('corrupt lz4 block')
    // Copy byte by byte if source and target overlap, because the format repeats the bytes that were just written.
    if (distance >= length) target.copy(target, to, to - distance, to - distance + length)
    else for (let i = 0; i < length; i++) target[to + i] = target[to + i - distance] ?? 0
    to += length
  }
  return target.subarray(0, to)
}
