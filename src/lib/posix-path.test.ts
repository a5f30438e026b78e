import * as node from 'node:path/posix'
import { expect, it } from 'vitest'
import { dirname, isAbsolute, join, normalize } from './posix-path.ts'

const names = ['', '.', '..', 'a', 'b.yaml']
const paths = names.flatMap(one =>
  names.flatMap(two => names.flatMap(three => [[one, two, three].join('/'), `/${one}/${two}`, `${one}/${two}/`, one])),
)

it('paths are the same as with node:path', () => {
  for (const path of new Set(paths)) {
    expect([normalize(path), isAbsolute(path)], path).toEqual([node.normalize(path), node.isAbsolute(path)])
    for (const other of names) expect(join(path, other), `${path} ${other}`).toBe(node.join(path, other))
    // Before a repeated slash, Node keeps one slash more than our function; both results name the same folder.
    expect(normalize(dirname(path)), path).toBe(node.normalize(node.dirname(path)).replace(/(.)\/$/, '$1'))
  }
})
