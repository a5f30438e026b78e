import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { promisify } from 'node:util'
import { afterEach, expect, test, vi } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { buildTrust, trustScript } from './trust.ts'

const pem = (text: string) =>
  `-----BEGIN CERTIFICATE-----\n${Buffer.from(text).toString('base64')}\n-----END CERTIFICATE-----`

afterEach(() => void vi.unstubAllEnvs())

test('certificate authorities that were added to the host are passed to builds, without duplicates and without text that is not PEM', async () => {
  await using dir = await testDir()
  await mkdir(join(dir.path, 'sub'))
  await writeFile(join(dir.path, 'a.crt'), `# of the company\n${pem('one')}\n${pem('two')}\n`)
  await writeFile(join(dir.path, 'sub', 'b.pem'), pem('one'))
  await writeFile(join(dir.path, 'key.txt'), pem('three'))
  const { MOTE_CA } = await buildTrust(null, [dir.path, join(dir.path, 'no-such-directory')])
  expect(MOTE_CA).toBe(`${pem('one')}\n${pem('two')}`)
  expect(await buildTrust(null, [join(dir.path, 'no-such-directory')])).not.toHaveProperty('MOTE_CA')
})

test('a file of authorities that is unreadable, too large or without a certificate causes an error that names the setting', async () => {
  await using dir = await testDir()
  const file = join(dir.path, 'ca.pem')
  await expect(buildTrust(file)).rejects.toThrow(/MOTE_BUILD_CA: cannot read/)
  await writeFile(file, 'nothing')
  await expect(buildTrust(file)).rejects.toThrow(/MOTE_BUILD_CA: .* holds no certificate/)
  await writeFile(file, pem('x'.repeat(100_000)))
  await expect(buildTrust(file)).rejects.toThrow(/at most .*MOTE_BUILD_CA/)
})

test('of a system bundle, only authorities that the builder lacks are passed to builds', async () => {
  await using dir = await testDir()
  const file = join(dir.path, 'ca-certificates.crt')
  // Debian's certificate files wrap lines at a different width than Node's list.
  const wrapped = rootCertificates.map(text => text.replace(/\n(?!-)/g, '').replace(/(.{64})(?=[^-])/g, '$1\n'))
  await writeFile(file, [...wrapped, pem('own')].join('\n'))
  expect((await buildTrust(file)).MOTE_CA).toBe(pem('own'))
})

test("the host's proxy settings are passed to builds in upper and lower case, except a proxy on loopback", async () => {
  vi.stubEnv('HTTPS_PROXY', '')
  vi.stubEnv('https_proxy', 'http://proxy.example.com:3128')
  vi.stubEnv('HTTP_PROXY', 'http://user:pass@127.0.0.1:3128')
  vi.stubEnv('NO_PROXY', 'localhost,.example.com')
  expect(await buildTrust(null, [])).toEqual({
    HTTPS_PROXY: 'http://proxy.example.com:3128',
    https_proxy: 'http://proxy.example.com:3128',
    NO_PROXY: 'localhost,.example.com',
    no_proxy: 'localhost,.example.com',
  })
})

test("the build script adds the host's authorities to the image's list and makes every package manager trust them", async () => {
  await using dir = await testDir()
  const here = trustScript.replaceAll('/run/', `${dir.path}/`).replaceAll('/etc/ssl/certs/', `${dir.path}/`)
  await writeFile(join(dir.path, 'ca-certificates.crt'), 'public\n')
  const { stdout } = await promisify(execFile)('/bin/sh', ['-euc', `${here} cat "$SSL_CERT_FILE"; env`], {
    env: { MOTE_CA: pem('one'), PATH: '/usr/bin:/bin' },
  })
  expect(stdout).toContain(`public\n${pem('one')}\n`)
  for (const name of ['NODE_EXTRA_CA_CERTS', 'GIT_SSL_CAINFO', 'PIP_CERT', 'CARGO_HTTP_CAINFO', 'REQUESTS_CA_BUNDLE'])
    expect(stdout, name).toMatch(new RegExp(`^${name}=${dir.path}/`, 'm'))
  const without = await promisify(execFile)('/bin/sh', ['-euc', `${here} env`], { env: { PATH: '/usr/bin:/bin' } })
  expect(without.stdout).not.toContain('SSL_CERT_FILE')
})
