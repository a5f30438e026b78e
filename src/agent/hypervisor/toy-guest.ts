/**
 * A minimal guest, for tests of a VMM on hosts whose KVM cannot boot a kernel: it writes `T` to the serial port for a
 * short time and then halts. It is an ELF file with a PVH entry (Xen's PHYS32_ENTRY note), which both Firecracker and
 * Cloud Hypervisor start in 32-bit mode without paging; the instructions mean the same in 64-bit mode.
 */
export function toyGuest(): Buffer {
  const code = Buffer.from([
    ...[0xba, 0xf8, 0x03, 0x00, 0x00], // mov edx, 0x3f8
    ...[0xbe, 0x20, 0x4e, 0x00, 0x00], // mov esi, 20000
    ...[0xb0, 0x54, 0xee], // again: mov al, 'T'; out dx, al
    ...[0xb9, 0x88, 0x13, 0x00, 0x00], // mov ecx, 5000
    ...[0xff, 0xc9, 0x75, 0xfc], // dec ecx; jnz -4
    ...[0xff, 0xce, 0x75, 0xf0], // dec esi; jnz again
    ...[0xf4, 0xeb, 0xfd], // hlt; jmp -3
  ])
  const note = Buffer.alloc(24)
  note.writeUInt32LE(4, 0) // length of the name "Xen", with its zero byte
  note.writeUInt32LE(8, 4) // length of the entry point address
  note.writeUInt32LE(pvhEntry, 8)
  note.write('Xen\0', 12, 'latin1')
  note.writeBigUInt64LE(BigInt(loadAddress), 16)
  const header = Buffer.alloc(headerBytes)
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1], 0) // 64-bit, little-endian
  header.writeUInt16LE(2, 16) // type: executable
  header.writeUInt16LE(62, 18) // x86-64
  header.writeUInt32LE(1, 20)
  header.writeBigUInt64LE(BigInt(loadAddress), 24)
  header.writeBigUInt64LE(64n, 32) // the program headers follow the ELF header
  header.writeUInt16LE(64, 52)
  header.writeUInt16LE(56, 54)
  header.writeUInt16LE(2, 56)
  segment(header, 64, { type: 1, flags: 5, offset: headerBytes, address: loadAddress, length: code.length })
  segment(header, 120, { type: 4, flags: 4, offset: headerBytes + code.length, address: 0, length: note.length })
  return Buffer.concat([header, code, note])
}

const loadAddress = 0x100000
const headerBytes = 64 + 2 * 56
const pvhEntry = 18

interface Segment {
  readonly type: number
  readonly flags: number
  readonly offset: number
  readonly address: number
  readonly length: number
}

function segment(header: Buffer, at: number, { type, flags, offset, address, length }: Segment): void {
  header.writeUInt32LE(type, at)
  header.writeUInt32LE(flags, at + 4)
  for (const [index, value] of [offset, address, address, length, length, 4].entries())
    header.writeBigUInt64LE(BigInt(value), at + 8 + 8 * index)
}
