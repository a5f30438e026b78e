/** Builds a Python package with one module as a wheel, which pip installs without network access. */
import { crc32 } from 'node:zlib'

/** Returns a wheel (PEP 427) with one module. */
export function wheel(name: string, version: string, code: string): Buffer {
  const info = `${name}-${version}.dist-info`
  const files = [
    [`${name}.py`, code],
    [`${info}/METADATA`, `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`],
    [`${info}/WHEEL`, 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n'],
  ] as const
  const record = [...files.map(([file]) => file), `${info}/RECORD`].map(file => `${file},,\n`).join('')
  return zip([...files, [`${info}/RECORD`, record]])
}

/** Returns a ZIP file with uncompressed entries (APPNOTE.TXT 6.3.10, 4.3). */
function zip(files: ReadonlyArray<readonly [name: string, text: string]>): Buffer {
  const locals: Buffer[] = []
  const central: Buffer[] = []
  let offset = 0
  for (const [name, text] of files) {
    const data = Buffer.from(text)
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0) // minimum version to unpack: 2.0
    common.writeUInt16LE(0x21, 8) // 1980-01-01
    common.writeUInt32LE(crc32(data), 10)
    common.writeUInt32LE(data.length, 14)
    common.writeUInt32LE(data.length, 18)
    common.writeUInt16LE(name.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), data])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(offset, 10)
    central.push(Buffer.concat([Buffer.from('PK\x01\x02'), Buffer.from([20, 0]), common, rest, Buffer.from(name)]))
    locals.push(local)
    offset += local.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(files.length, 4)
  end.writeUInt16LE(files.length, 6)
  end.writeUInt32LE(directory.length, 8)
  end.writeUInt32LE(offset, 12)
  return Buffer.concat([...locals, directory, Buffer.from('PK\x05\x06'), end])
}
