/**
 * Lock files contain the optional packages of every platform. `npm install` may leave out those of other platforms, and
 * `npm ci` then rejects the file.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'

interface Entry {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}
const root = join(import.meta.dirname, '..')

it.each(['package-lock.json', 'dashboard/package-lock.json'])('%s has the packages of every platform', async file => {
  const { packages }: { packages: Readonly<Record<string, Entry>> } = JSON.parse(
    await readFile(join(root, file), 'utf8'),
  )
  /** True if the package is in node_modules of the dependent package or of a folder above, as Node resolves it. */
  const isThere = (from: string, name: string): boolean =>
    `${from === '' ? '' : `${from}/`}node_modules/${name}` in packages ||
    (from !== '' && isThere(from.replace(/\/?node_modules\/(?:@[^/]+\/)?[^/]+$/, ''), name))
  const missing = Object.entries(packages).flatMap(([place, { dependencies, optionalDependencies }]) =>
    Object.keys({ ...dependencies, ...optionalDependencies })
      .filter(name => !isThere(place, name))
      .map(name => `${name}, for ${place}`),
  )
  expect(Object.keys(packages).length).toBeGreaterThan(50)
  expect(missing).toEqual([])
})
