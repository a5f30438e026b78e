import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { productVersion } from './version.ts'

it('the product version equals the package version, which bin/mote prints without starting Node', async () => {
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(productVersion).toBe(version)
})
