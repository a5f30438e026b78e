import { expect, it } from 'vitest'
import { parseControlConfig } from '../base/config.ts'
import { chooseNode, pageserverOf, storageNodes } from './storage-nodes.ts'

const { databases } = parseControlConfig({
  MOTE_SECRET_KEY: 'x'.repeat(32),
  MOTE_DATABASE_BACKEND: 'neon',
  MOTE_PAGESERVER_URL: 'http://one:9898',
  MOTE_NEON_IMAGE: 'example/compute:15',
  MOTE_STORAGE_NODES: '2=http://two:9898,3',
})

it('a new tenant is created on the page server with the fewest tenants, among those with an address', () => {
  const nodes = storageNodes(databases)
  expect(nodes.map(({ id }) => id)).toEqual([1, 2, 3])
  expect(chooseNode(nodes, new Map())).toBe(1)
  expect(chooseNode(nodes, new Map([[1, 1]]))).toBe(2)
  expect(
    chooseNode(
      nodes,
      new Map([
        [1, 4],
        [2, 3],
        [3, 0],
      ]),
    ),
  ).toBe(2)
})

it('the address of a tenant is that of its page server', () => {
  expect(pageserverOf(databases, 1)).toBe('http://one:9898')
  expect(pageserverOf(databases, 2)).toBe('http://two:9898')
  for (const node of [3, 4, null]) expect(() => pageserverOf(databases, node)).toThrow('MOTE_STORAGE_NODES')
})

it('the configuration refuses invalid page server ids', () =>
  expect(() => parseControlConfig({ MOTE_SECRET_KEY: 'x'.repeat(32), MOTE_STORAGE_NODES: 'two' })).toThrow(
    'MOTE_STORAGE_NODES',
  ))
