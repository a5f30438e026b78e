/** One word of a control line: percent-encoded bytes, so that spaces and newlines survive. The empty one is `%00`. */
export function encodeWord(text: string): string {
  if (text === '') return '%00'
  return [...Buffer.from(text)].map(byte => (plain(byte) ? String.fromCharCode(byte) : hex(byte))).join('')
}

const plain = (byte: number) => byte > 0x20 && byte < 0x7f && byte !== 0x25
const hex = (byte: number) => `%${byte.toString(16).padStart(2, '0')}`
