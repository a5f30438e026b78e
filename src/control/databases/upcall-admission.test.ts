import { describe, expect, it } from 'vitest'
import { type UpcallOrigin, upcallAdmission } from './upcall-admission.ts'

const local = {
  storageNetworks: [],
  publicUrl: 'http://localhost:7070',
  trustedProxies: [],
  databases: { storageSecret: '' },
}
const admits = (config: Parameters<typeof upcallAdmission>[0], origin: Partial<UpcallOrigin> = {}) => {
  try {
    upcallAdmission(config)({ ip: '127.0.0.1', headers: {}, ...origin })
    return true
  } catch (refusal) {
    expect(refusal).toMatchObject({ status: 403 })
    return false
  }
}

describe("the page servers' requests /re-attach and /validate", () => {
  it.each(['http://localhost:7070', 'http://127.0.0.1:7070', 'http://[::1]:7070'])(
    'are accepted from loopback while the API is at %s',
    publicUrl => {
      for (const ip of ['127.0.0.1', '::1', '::ffff:127.0.0.1'])
        expect(admits({ ...local, publicUrl }, { ip })).toBe(true)
      expect(admits({ ...local, publicUrl }, { ip: '192.0.2.1' })).toBe(false)
    },
  )

  it.each(['https://mote.example', 'http://127.0.0.1.example', 'https://localhost.example'])(
    'are refused from loopback while the API is at %s, because a proxy may run on the same host',
    publicUrl => expect(admits({ ...local, publicUrl })).toBe(false),
  )

  it('are refused from loopback when a proxy is trusted', () => {
    expect(admits({ ...local, trustedProxies: ['127.0.0.1'] })).toBe(false)
  })

  it('are accepted only from the configured networks', () => {
    const config = { ...local, publicUrl: 'https://mote.example', storageNetworks: ['192.0.2.0/24', '2001:db8::1'] }
    for (const ip of ['192.0.2.7', '2001:db8::1']) expect(admits(config, { ip })).toBe(true)
    for (const ip of ['127.0.0.1', '198.51.100.1', '2001:db8::2']) expect(admits(config, { ip })).toBe(false)
  })

  it.each(['x-forwarded-for', 'forwarded', 'X-Real-IP', 'via', 'origin', 'sec-fetch-site'])(
    'are refused with the header %s, because they did not come directly from a page server',
    name => {
      const headers = { [name.toLowerCase()]: '127.0.0.1' }
      expect(admits(local, { headers })).toBe(false)
      expect(admits({ ...local, storageNetworks: ['127.0.0.0/8'] }, { headers })).toBe(false)
    },
  )

  it('are accepted with the shared secret from every address', () => {
    const config = { ...local, publicUrl: 'https://mote.example', databases: { storageSecret: 'shared' } }
    const origin = { ip: '192.0.2.1', headers: { authorization: 'Bearer shared', 'x-forwarded-for': '192.0.2.9' } }
    expect(admits(config, origin)).toBe(true)
    expect(admits(config, { ...origin, headers: { authorization: 'Bearer other' } })).toBe(false)
    expect(
      admits({ ...config, databases: { storageSecret: '' } }, { ...origin, headers: { authorization: 'Bearer ' } }),
    ).toBe(false)
  })
})
