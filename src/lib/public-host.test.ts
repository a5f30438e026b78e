import { expect, it } from 'vitest'
import { parseCidr } from './cidr.ts'
import { checkPublicHost, type HostPolicy, internetOnly, isPublicAddress } from './public-host.ts'

const loopback: HostPolicy = { allowed: [parseCidr('127.0.0.0/8')].flatMap(cidr => cidr ?? []) }

it.each(['8.8.8.8', '1.1.1.1', '2606:4700::1111', '::ffff:8.8.8.8'])('%s is a public address', address =>
  expect(isPublicAddress(address)).toBe(true),
)
it.each([
  ...['127.0.0.1', '10.1.2.3', '172.31.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1', '0.0.0.0', '224.0.0.1'],
  ...[
    '::1',
    '::',
    'fd00::1',
    'fe80::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '64:ff9b::a00:1',
    '2002:a00:1::',
    'ff02::1',
  ],
  ...['', 'localhost', '2130706433', '0x7f.1'],
])('%j is not a public address', address => expect(isPublicAddress(address)).toBe(false))

it('only the public addresses of a name are returned, and a name without any is refused', async () => {
  const lookup = async () => ['10.0.0.1', '8.8.8.8', '::1']
  expect(await checkPublicHost('mixed.example', internetOnly, lookup)).toEqual(['8.8.8.8'])
  await expect(checkPublicHost('inside.example', internetOnly, async () => ['10.0.0.1'])).rejects.toThrow(
    /private address/,
  )
  await expect(checkPublicHost('[::1]')).rejects.toThrow(/private address/)
  expect(await checkPublicHost('127.0.0.1', loopback)).toEqual(['127.0.0.1'])
})
