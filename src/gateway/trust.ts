import { BlockList, isIP } from 'node:net'

/**
 * Returns a function that tests whether an address is in the list.
 * @param entries addresses and CIDRs, e.g. `10.0.0.0/8`
 * @throws Error that names an invalid entry
 */
export function trustList(entries: readonly string[]): (address: string) => boolean {
  if (entries.length === 0) return () => false
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/')
    const family = isIP(address)
    if (family === 0) throw new Error(`trusted proxy "${entry}" is not an address or CIDR such as 10.0.0.0/8`)
    list.addSubnet(
      address,
      bits === undefined ? (family === 4 ? 32 : 128) : Number(bits),
      family === 4 ? 'ipv4' : 'ipv6',
    )
  }
  return address => {
    const plain = address.replace(/^::ffff:/, '')
    const family = isIP(plain)
    return family !== 0 && list.check(plain, family === 4 ? 'ipv4' : 'ipv6')
  }
}
