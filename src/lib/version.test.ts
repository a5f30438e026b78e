import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { productVersion } from './version.ts'

it('is that of the package, which bin/mote says without starting Node', async () => {
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(productVersion).toBe(version)
})
