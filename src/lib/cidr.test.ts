import { expect, it } from 'vitest'
import { contains, formatCidr, formatIp, parseCidr, parseIp, unmapped } from './cidr.ts'

const written = (text: string) => {
  const ip = parseIp(text)
  return ip && formatIp(ip)
}

it.each([
  ['10.0.0.1', '10.0.0.1'],
  ['255.255.255.255', '255.255.255.255'],
  ['::', '::'],
  ['::1', '::1'],
  ['FD00:0:0:1:0:0:0:1', 'fd00:0:0:1::1'],
  ['fd00:0:0:0:1:0:0:0', 'fd00::1:0:0:0'],
  ['1:0:2:0:3:0:4:0', '1:0:2:0:3:0:4:0'],
  ['10:0:0:20:0:0:0:30', '10:0:0:20::30'],
  ['fd00::', 'fd00::'],
  ['::ffff:10.1.2.3', '::ffff:a01:203'],
])('the address %s is written as %s', (text, canonical) => expect(written(text)).toBe(canonical))

it.each(['', '10.0.0', '10.0.0.256', '010.0.0.1', 'fe80::1%eth0', 'g::', '1::2::3', '10.0.0.1/8'])(
  '%j is not a valid address',
  text => expect(parseIp(text)).toBeUndefined(),
)

it.each([
  ['10.1.2.3/8', '10.0.0.0/8'],
  ['10.1.2.3', '10.1.2.3/32'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['fd00:1:2:3:4::9/64', 'fd00:1:2:3::/64'],
  ['::/0', '::/0'],
])('%s is parsed as the network %s', (text, canonical) => {
  const cidr = parseCidr(text)
  expect(cidr && formatCidr(cidr)).toBe(canonical)
})

it.each(['10.0.0.0/33', '::/129', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0.0/-1', '10.0.0.0/+8', 'internal'])(
  '%j is not a valid network',
  text => expect(parseCidr(text)).toBeUndefined(),
)

it.each([
  ['10.0.0.0/8', '10.255.0.1', true],
  ['10.0.0.0/8', '11.0.0.1', false],
  ['fd00:1:2:3::/64', 'fd00:1:2:3:ffff::1', true],
  ['fd00:1:2:3::/64', 'fd00:1:2:4::1', false],
  ['0.0.0.0/0', '::1', false],
])('the network %s contains %s: %s', (network, address, inside) => {
  const [cidr, ip] = [parseCidr(network), parseIp(address)]
  expect(cidr && ip && contains(cidr, ip)).toBe(inside)
})

it('an IPv4-mapped IPv6 address is converted to IPv4', () => {
  const ip = parseIp('::ffff:169.254.169.254')
  expect(ip && formatIp(unmapped(ip))).toBe('169.254.169.254')
})
