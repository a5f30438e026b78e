import { expect, it } from 'vitest'
import { createVault } from '../../lib/vault.ts'
import { readGrant, writeGrant } from './grant.ts'

it('a grant can be read for its own purpose only, is marked as old after its expiry, and cannot be forged', () => {
  const vault = createVault(['a secret of this test, long enough'])
  const grant = { accountId: 'a', projectId: 'p', target: 't', via: 'pat', viaId: 'v', expiresMs: 1000 } as const
  const text = writeGrant(vault, 'app.shell', grant)
  expect(readGrant(vault, 'app.shell', text, new Date(999))).toEqual({ ...grant, isOld: false })
  expect(readGrant(vault, 'app.shell', text, new Date(1000))).toEqual({ ...grant, isOld: true })
  expect(
    readGrant(createVault(['another secret, as long as the first']), 'app.shell', text, new Date(0)),
  ).toBeUndefined()
  expect(readGrant(vault, 'database.tunnel', text, new Date(0))).toBeUndefined()
  const [body, mac] = text.split('.')
  const other = Buffer.from(JSON.stringify({ ...grant, expiresMs: 1e15 })).toString('base64url')
  expect(readGrant(vault, 'app.shell', `${other}.${mac}`, new Date(0))).toBeUndefined()
  expect(readGrant(vault, 'app.shell', body ?? '', new Date(0))).toBeUndefined()
})
