import { describe, expect, it } from 'vitest'
import { crumbsOf, decodeName, inDirectory, inOrder, nameFault, parentOf, pathOfSearch } from './path.ts'

describe('paths in a VM', () => {
  it('are decoded to text, with replacement characters for invalid UTF-8', () => {
    expect(decodeName('caf%c3%a9%20%25')).toBe('café %')
    expect(decodeName('%ff%FE')).toBe('\ufffd\ufffd')
    expect(decodeName('größe')).toBe('größe')
    expect(crumbsOf('/var/log/a%20b')).toEqual([
      { name: '/', path: '/' },
      { name: 'var', path: '/var' },
      { name: 'log', path: '/var/log' },
      { name: 'a b', path: '/var/log/a%20b' },
    ])
    expect(crumbsOf('/')).toHaveLength(1)
  })

  it('are percent-encoded from the name that a user enters', () => {
    expect(inDirectory('/', 'a b%')).toBe('/a%20b%25')
    expect(inDirectory('/var', 'ä')).toBe('/var/%C3%A4')
    expect([parentOf('/a'), parentOf('/a/b')]).toEqual(['/', '/a'])
    expect(['', '.', '..', 'a/b', 'a'].map(nameFault)).toEqual([...Array(4).fill(expect.any(String)), undefined])
  })

  it('from the page URL are reduced to absolute paths without ".."', () => {
    for (const [at, path] of [
      [undefined, '/'],
      [5, '/'],
      ['var', '/'],
      ['/', '/'],
      ['/var/../etc//x/./', '/var/etc/x'],
    ] as const)
      expect([at, pathOfSearch(at)]).toEqual([at, path])
  })

  it('are sorted with directories first and numbers in numeric order', () => {
    const entries = [
      { name: 'b10', type: 'file', target_type: null },
      { name: 'b9', type: 'file', target_type: null },
      { name: 'z', type: 'symlink', target_type: 'directory' },
      { name: 'y', type: 'directory', target_type: null },
    ]
    expect(inOrder(entries).map(({ name }) => name)).toEqual(['y', 'z', 'b9', 'b10'])
  })
})
