export interface CpioEntry {
  /** Path without a leading slash. */
  readonly path: string
  /** File type and permission bits, such as 0o100755 or 0o040755. */
  readonly mode: number
  readonly data?: Buffer
  /** Device numbers of a device node. */
  readonly device?: readonly [major: number, minor: number]
}

/** Builds an uncompressed "newc" archive for the kernel's initramfs (Documentation/driver-api/early-userspace). */
export function cpio(entries: readonly CpioEntry[]): Buffer {
  const parts: Buffer[] = []
  const all = [...entries, { path: 'TRAILER!!!', mode: 0 } satisfies CpioEntry]
  all.forEach((entry: CpioEntry, index) => {
    const data = entry.data ?? Buffer.alloc(0)
    const name = Buffer.from(`${entry.path}\0`)
    const [major, minor] = entry.device ?? [0, 0]
    const fields = [index + 1, entry.mode, 0, 0, 1, 0, data.length, 0, 0, major, minor, name.length, 0]
    const header = `070701${fields.map(field => field.toString(16).padStart(8, '0')).join('')}`
    parts.push(padded(Buffer.concat([Buffer.from(header), name])), padded(data))
  })
  return Buffer.concat(parts)
}

function padded(data: Buffer): Buffer {
  const missing = (4 - (data.length % 4)) % 4
  return missing === 0 ? data : Buffer.concat([data, Buffer.alloc(missing)])
}
